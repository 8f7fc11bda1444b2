#include "kernels/linear/rmsnorm.h"

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

void check_case(const Shape& shape, float size, Place place, Queue& queue) {
  const auto [rows, cols, gap] = shape;
  CAPTURE(rows);
  CAPTURE(cols);
  CAPTURE(gap);
  Random random(static_cast<uint64_t>(rows * 1000 + cols));
  const float epsilon = 1e-5f;
  const test::Vector<float> weight = test::visible(random.uniforms(cols, 0.5f, 1.5f));
  Guarded<float> input(rows, cols, cols + gap), floats(rows, cols, cols + 2 * gap);
  test::Activations activations(queue, rows, cols, cols + gap);
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t i = 0; i < cols; ++i) input.at(t, i) = random.normal(size);
  const Guarded<float> x = input;
  Guarded<float>& out = place == Place::kInput ? input : floats;
  const bool typed = place == Place::kActivations;
  rmsnorm({.input = input.view(),
           .weight = weight.data(),
           .epsilon = epsilon,
           .output = typed ? activations.view() : ActivationView(out.view())},
          queue);
  REQUIRE(queue.finish().ok());
  CHECK(input.intact());
  CHECK(floats.intact());
  CHECK(activations.intact());
  for (int64_t t = 0; t < rows; ++t) {
    double squares = 0;
    for (int64_t i = 0; i < cols; ++i) squares += static_cast<double>(x.at(t, i)) * x.at(t, i);
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(cols) + static_cast<double>(epsilon));
    for (int64_t i = 0; i < cols; ++i) {
      const double expected = x.at(t, i) * scale * static_cast<double>(weight[static_cast<size_t>(i)]);
      const double tolerance = 3e-6 * (std::abs(expected) + 1e-3) + (typed ? activations.rounding(expected) : 0.0);
      const float got = typed ? activations.get(t, i) : out.at(t, i);
      REQUIRE(std::abs(got - expected) <= tolerance);
    }
  }
}

TEST_CASE("rmsnorm equals its formula for every length and address of row, on every target") {
  test::for_each_backend_and_target([&](Queue& queue) {
    for (const Place place : {Place::kActivations, Place::kFloats, Place::kInput}) {
      for (const int64_t cols : {1, 3, 15, 16, 17, 64, 100, 512, 960, 4099}) check_case({3, cols}, 1.0f, place, queue);
      for (const int64_t cols : {4, 64, 576, 960, 4096}) check_case({3, cols, 8}, 1.0f, place, queue);
    }
    check_case({1, 576, 0}, 1.0f, Place::kInput, queue);
    check_case({513, 72}, 100.0f, Place::kInput, queue);
    check_case({513, 72, 0}, 100.0f, Place::kActivations, queue);
    check_case({4, 64}, 1e-4f, Place::kFloats, queue);  // epsilon matters
  });
}

TEST_CASE("rmsnorm takes rows that are too long for registers") {
  test::for_each_backend([&](Queue& queue) {
    for (const int64_t cols : {4100, 8192, 8196, 20000}) check_case({2, cols, 8}, 1.0f, Place::kActivations, queue);
  });
}

TEST_CASE("a row's norm does not depend on the rows beside it") {
  constexpr int64_t kRows = 300, kCols = 960;
  test::for_each_backend([&](Queue& queue) {
    Random random(9);
    const test::Vector<float> weight = test::visible(random.uniforms(kCols, 0.5f, 1.5f));
    Guarded<float> input(kRows, kCols), together(kRows, kCols), alone(1, kCols);
    for (int64_t t = 0; t < kRows; ++t)
      for (int64_t i = 0; i < kCols; ++i) input.at(t, i) = random.normal();
    rmsnorm({.input = input.view(), .weight = weight.data(), .epsilon = 1e-5f, .output = together.view()}, queue);
    const DeviceView<const float> last = input.view().slice_rows(kRows - 1, 1);
    rmsnorm({.input = last, .weight = weight.data(), .epsilon = 1e-5f, .output = alone.view()}, queue);
    REQUIRE(queue.finish().ok());
    for (int64_t i = 0; i < kCols; ++i) REQUIRE(alone.at(0, i) == together.at(kRows - 1, i));
  });
}

}  // namespace
}  // namespace ocellus
