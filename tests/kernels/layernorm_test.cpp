#include "kernels/layernorm.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/guard.h"
#include "tests/support/random.h"
#include "tests/support/test_queue.h"

namespace ocellus {
namespace {

using test::Guarded;
using test::Random;

void check_case(int64_t rows, int64_t cols, float middle, bool in_place, Queue& queue) {
  CAPTURE(rows);
  CAPTURE(cols);
  Random random(static_cast<uint64_t>(rows * 1000 + cols));
  const float epsilon = 1e-6f;
  const std::vector<float> weight = random.uniforms(cols, 0.5f, 1.5f), bias = random.uniforms(cols);
  Guarded<float> input(rows, cols, cols + 3), output(rows, cols, cols + 5);
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t i = 0; i < cols; ++i) input.at(t, i) = middle + random.normal();
  const Guarded<float> x = input;
  Guarded<float>& out = in_place ? input : output;
  layernorm(
      {.input = input.view(), .weight = weight.data(), .bias = bias.data(), .epsilon = epsilon, .output = out.view()},
      queue);
  CHECK(queue.ok());
  CHECK(out.intact());
  for (int64_t t = 0; t < rows; ++t) {
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < cols; ++i) mean += x.at(t, i) / static_cast<double>(cols);
    for (int64_t i = 0; i < cols; ++i)
      variance += (x.at(t, i) - mean) * (x.at(t, i) - mean) / static_cast<double>(cols);
    for (int64_t i = 0; i < cols; ++i) {
      const size_t k = static_cast<size_t>(i);
      const double unit = (x.at(t, i) - mean) / std::sqrt(variance + static_cast<double>(epsilon));
      const double expected = unit * static_cast<double>(weight[k]) + static_cast<double>(bias[k]);
      // A far-off mean costs digits in the inputs themselves.
      REQUIRE(std::abs(out.at(t, i) - expected) <= 4e-6 + 1e-6 * static_cast<double>(std::abs(middle)));
    }
  }
}

TEST_CASE("layernorm equals its formula for every length of row, on every target") {
  test::TestQueue queue(2);
  test::for_each_target([&] {
    for (const int64_t cols : {2, 3, 15, 16, 17, 64, 100, 384, 1152, 4099}) check_case(3, cols, 0.5f, false, *queue);
    check_case(1, 384, 0.0f, true, *queue);
    check_case(513, 72, 0.0f, true, *queue);
  });
}

TEST_CASE("layernorm keeps its digits when the mean is much larger than the spread") {
  test::TestQueue queue(1);
  test::for_each_target([&] { check_case(4, 200, 300.0f, false, *queue); });
}

}  // namespace
}  // namespace ocellus
