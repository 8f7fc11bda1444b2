#include "kernels/rows/convert_rows.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/support/device.h"
#include "tests/support/guard.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Guarded;
using test::Random;

struct Shape {
  int64_t rows;
  int64_t cols;
  int64_t gap;  // between rows; a multiple of 8 allows wide accesses
};
constexpr Shape kShapes[] = {{1, 1, 0}, {3, 37, 7}, {1, 512, 0}, {16, 576, 8}, {2, 1036, 4}, {5, 4112, 8}, {70, 8, 0}};

/// Returns values that fit f16, that are halfway between two of them, and that are too large or too small.
float lively(Random& random) {
  constexpr float kSpecial[] = {0.0f,        -0.0f,    1e-9f, -6e-8f, 3e-8f,    1.0f + 0x1p-11f, 1.0f + 0x3p-11f,
                                -0x1.fp-15f, 65504.0f, 7e4f,  -3e38f, 65519.9f, 65520.0f};
  const int64_t k = random.integer(0, 51);
  return k < 13 ? kSpecial[k] : random.normal(20.0f);
}

Half rounded(float x) { return float_to_half(std::clamp(x, -65504.0f, 65504.0f)); }

}  // namespace

TEST_CASE("rows are rounded to f16 and expanded from it exactly, on every target") {
  test::for_each_backend_and_target([&](Queue& queue) {
    for (const auto& [rows, cols, gap] : kShapes) {
      CAPTURE(cols);
      Random random(static_cast<uint64_t>(cols));
      Guarded<float> floats(rows, cols, cols + gap), expanded(rows, cols, cols + 2 * gap), copied(rows, cols);
      Guarded<Half> halves(rows, cols, cols + gap), halves_copied(rows, cols);
      for (int64_t t = 0; t < rows; ++t)
        for (int64_t i = 0; i < cols; ++i) floats.at(t, i) = lively(random);
      convert_rows({.from = floats.view(), .to = halves.view()}, queue);
      convert_rows({.from = halves.view(), .to = expanded.view()}, queue);
      convert_rows({.from = floats.view(), .to = copied.view()}, queue);
      convert_rows({.from = halves.view(), .to = halves_copied.view()}, queue);
      REQUIRE(queue.finish().ok());
      CHECK((halves.intact() && expanded.intact() && copied.intact() && halves_copied.intact()));
      for (int64_t t = 0; t < rows; ++t) {
        for (int64_t i = 0; i < cols; ++i) {
          CAPTURE(floats.at(t, i));
          const Half expected = rounded(floats.at(t, i));
          REQUIRE(halves.at(t, i).bits == expected.bits);
          REQUIRE(halves_copied.at(t, i).bits == expected.bits);
          REQUIRE(expanded.at(t, i) == half_to_float(expected));
          REQUIRE(copied.at(t, i) == floats.at(t, i));
        }
      }
    }
  });
}

TEST_CASE("listed rows are converted into listed places, and others stay") {
  test::for_each_backend([&](Queue& queue) {
    for (const auto& [rows, cols, gap] : kShapes) {
      CAPTURE(cols);
      const int64_t many = rows + 3;
      Random random(static_cast<uint64_t>(cols));
      Guarded<float> floats(many, cols, cols + gap), spread(many, cols, cols + gap);
      Guarded<Half> halves(rows, cols);
      for (int64_t t = 0; t < many; ++t)
        for (int64_t i = 0; i < cols; ++i) floats.at(t, i) = lively(random);
      test::Vector<int32_t> list;
      for (int64_t t = 0; t < rows; ++t) list.push_back(static_cast<int32_t>(many - 1 - t));
      convert_rows({.from = floats.view(), .to = halves.view(), .sources = list.data()}, queue);
      convert_rows({.from = halves.view(), .to = spread.view(), .places = list.data()}, queue);
      REQUIRE(queue.finish().ok());
      CHECK((halves.intact() && spread.intact()));
      CHECK(spread.untouched_count() == 3 * cols);
      for (int64_t t = 0; t < rows; ++t) {
        for (int64_t i = 0; i < cols; ++i) {
          const Half expected = rounded(floats.at(many - 1 - t, i));
          REQUIRE(halves.at(t, i).bits == expected.bits);
          REQUIRE(spread.at(many - 1 - t, i) == half_to_float(expected));
        }
      }
    }
  });
}

TEST_CASE("a failed queue converts no rows") {
  test::for_each_backend([&](Queue& queue) {
    Guarded<float> floats(1, 8);
    Guarded<Half> halves(1, 8);
    queue.fail(Status(Code::kCancelled));
    convert_rows({.from = floats.view(), .to = halves.view()}, queue);
    queue.clear();
    REQUIRE(queue.finish().ok());
    CHECK(halves.untouched_count() == 8);
  });
}

}  // namespace ocellus
