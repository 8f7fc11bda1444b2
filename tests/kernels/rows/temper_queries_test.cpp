#include "kernels/rows/temper_queries.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/device.h"
#include "tests/support/guard.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

void check_rows(int64_t width, int64_t gap, int64_t stride, const QueryTemperature& t, Queue& queue) {
  CAPTURE(width);
  CAPTURE(gap);
  CAPTURE(stride);
  const int32_t places[] = {0, t.length - 1, t.length, 2 * t.length - 1, 7 * t.length + 3, 262143};
  const auto rows = static_cast<int64_t>(std::size(places));
  test::Random random(static_cast<uint64_t>(width + gap));
  test::Activations values(queue, rows, width, width + gap);
  test::Vector<int32_t> positions(static_cast<size_t>(rows * stride), -1);
  for (int64_t row = 0; row < rows; ++row) {
    positions[static_cast<size_t>(row * stride)] = places[row];
    for (int64_t i = 0; i < width; ++i) values.set(row, i, random.normal());
  }
  const test::Activations x = values;
  temper_queries({.values = values.view(), .positions = positions.data(), .position_stride = stride, .temperature = t},
                 queue);
  REQUIRE(queue.finish().ok());
  CHECK(values.intact());
  for (int64_t row = 0; row < rows; ++row) {
    const double passed = std::floor(static_cast<double>(places[row]) / t.length);
    const double factor = static_cast<double>(t.scale) * (1.0 + static_cast<double>(t.beta) * std::log(1.0 + passed));
    for (int64_t i = 0; i < width; ++i) {
      const double expected = x.get(row, i) * factor;
      REQUIRE(std::abs(values.get(row, i) - expected) < 1e-6 * (1 + std::abs(expected)) + values.rounding(expected));
    }
  }
}

TEST_CASE("queries grow by whole lengths that they have passed") {
  test::for_each_backend([](Queue& queue) {
    for (const int64_t width : {1, 8, 37, 64, 4096, 5000})
      for (const int64_t gap : {0, 3, 8})
        for (const int64_t stride : {1, 3}) {
          check_rows(width, gap, stride, {.beta = 0.1f, .length = 16384}, queue);
          check_rows(width, gap, stride, {.scale = 1.63f, .beta = 0.35f, .length = 32}, queue);
          check_rows(width, gap, stride, {.scale = 0.5f}, queue);
        }
  });
}

}  // namespace
}  // namespace ocellus
