#include "kernels/rows/layernorm.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/device.h"
#include "tests/support/guard.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Guarded;
using test::Random;

enum class Place { kActivations, kFloats, kInput };

struct Shape {
  int64_t rows;
  int64_t cols;
  int64_t gap = 3;  // between rows; a multiple of 8 allows wide accesses
};

void check_case(const Shape& shape, float middle, Place place, Queue& queue) {
  const auto [rows, cols, gap] = shape;
  CAPTURE(rows);
  CAPTURE(cols);
  CAPTURE(gap);
  Random random(static_cast<uint64_t>(rows * 1000 + cols));
  const float epsilon = 1e-6f;
  const test::Vector<float> weight = test::visible(random.uniforms(cols, 0.5f, 1.5f));
  const test::Vector<float> bias = test::visible(random.uniforms(cols));
  Guarded<float> input(rows, cols, cols + gap), floats(rows, cols, cols + 2 * gap);
  test::Activations activations(queue, rows, cols, cols + gap);
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t i = 0; i < cols; ++i) input.at(t, i) = middle + random.normal();
  const Guarded<float> x = input;
  Guarded<float>& out = place == Place::kInput ? input : floats;
  const bool typed = place == Place::kActivations;
  layernorm({.input = input.view(),
             .weight = weight.data(),
             .bias = bias.data(),
             .epsilon = epsilon,
             .output = typed ? activations.view() : ActivationView(out.view())},
            queue);
  REQUIRE(queue.finish().ok());
  CHECK(input.intact());
  CHECK(floats.intact());
  CHECK(activations.intact());
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
      const double tolerance = 4e-6 + 1e-6 * static_cast<double>(std::abs(middle));
      const float got = typed ? activations.get(t, i) : out.at(t, i);
      REQUIRE(std::abs(got - expected) <= tolerance + (typed ? activations.rounding(expected) : 0.0));
    }
  }
}

TEST_CASE("layernorm equals its formula for every length and address of row, on every target") {
  test::for_each_backend_and_target([&](Queue& queue) {
    for (const Place place : {Place::kActivations, Place::kFloats, Place::kInput}) {
      for (const int64_t cols : {2, 3, 15, 16, 17, 64, 100, 384, 1152, 4099}) check_case({3, cols}, 0.5f, place, queue);
      for (const int64_t cols : {4, 64, 384, 1152, 4096}) check_case({3, cols, 8}, 0.5f, place, queue);
    }
    check_case({1, 384, 0}, 0.0f, Place::kInput, queue);
    check_case({513, 72}, 0.0f, Place::kInput, queue);
    check_case({513, 72, 0}, 0.0f, Place::kActivations, queue);
  });
}

TEST_CASE("layernorm keeps its digits when the mean is much larger than the spread") {
  test::for_each_backend_and_target([&](Queue& queue) {
    check_case({4, 200}, 300.0f, Place::kFloats, queue);
    check_case({4, 200, 8}, 300.0f, Place::kFloats, queue);
  });
}

TEST_CASE("layernorm takes rows that are too long for registers") {
  test::for_each_backend([&](Queue& queue) {
    for (const int64_t cols : {4100, 8192, 8196, 20000}) check_case({2, cols, 8}, 0.5f, Place::kActivations, queue);
  });
}

}  // namespace
}  // namespace ocellus
