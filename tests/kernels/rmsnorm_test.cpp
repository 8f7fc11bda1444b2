#include "kernels/rmsnorm.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/guard.h"
#include "tests/support/random.h"
#include "tests/support/test_queue.h"

namespace ocellus {
namespace {

using test::Guarded;
using test::Random;

void check_case(int64_t rows, int64_t cols, float size, bool in_place, Queue& queue) {
  CAPTURE(rows);
  CAPTURE(cols);
  Random random(static_cast<uint64_t>(rows * 1000 + cols));
  const float epsilon = 1e-5f;
  const std::vector<float> weight = random.uniforms(cols, 0.5f, 1.5f);
  Guarded<float> input(rows, cols, cols + 3), output(rows, cols, cols + 5);
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t i = 0; i < cols; ++i) input.at(t, i) = random.normal(size);
  const Guarded<float> x = input;
  Guarded<float>& out = in_place ? input : output;
  rmsnorm({.input = input.view(), .weight = weight.data(), .epsilon = epsilon, .output = out.view()}, queue);
  CHECK(queue.ok());
  CHECK(out.intact());
  for (int64_t t = 0; t < rows; ++t) {
    double squares = 0;
    for (int64_t i = 0; i < cols; ++i) squares += static_cast<double>(x.at(t, i)) * x.at(t, i);
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(cols) + static_cast<double>(epsilon));
    for (int64_t i = 0; i < cols; ++i) {
      const double expected = x.at(t, i) * scale * static_cast<double>(weight[static_cast<size_t>(i)]);
      REQUIRE(std::abs(out.at(t, i) - expected) <= 3e-6 * (std::abs(expected) + 1e-3));
    }
  }
}

TEST_CASE("rmsnorm equals its formula for every length of row, on every target") {
  test::TestQueue queue(2);
  test::for_each_target([&] {
    for (const int64_t cols : {1, 3, 15, 16, 17, 64, 100, 512, 960, 4099}) check_case(3, cols, 1.0f, false, *queue);
    check_case(1, 576, 1.0f, true, *queue);
    check_case(513, 72, 100.0f, true, *queue);
    check_case(4, 64, 1e-4f, false, *queue);  // epsilon matters
  });
}

}  // namespace
}  // namespace ocellus
