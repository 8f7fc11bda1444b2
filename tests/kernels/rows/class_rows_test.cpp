#include "kernels/rows/class_rows.h"

#include <doctest/doctest.h>

#include <tuple>

#include "tests/support/device.h"
#include "tests/support/guard.h"
#include "tests/support/random.h"
#include "tests/support/weights.h"

namespace ocellus {
namespace {

using test::Guarded;
using test::Random;

struct Shape {
  int64_t views;
  int64_t patches;
  int64_t cols;
  int64_t gap;  // between rows; a multiple of 4 allows wide accesses
};

void check_place(const Shape& shape, WeightFormat format, int64_t first, Queue& queue) {
  CAPTURE(format_info(format).name);
  CAPTURE(shape.patches);
  CAPTURE(shape.cols);
  CAPTURE(shape.gap);
  CAPTURE(first);
  Random random(static_cast<uint64_t>(shape.cols + first));
  const int64_t view_rows = shape.patches + 1, rows = shape.views * view_rows - first;
  const test::Weights drawn = test::random_weights(format, view_rows, shape.cols, random);
  const test::Vector<uint8_t> bytes(drawn.bytes.begin(), drawn.bytes.end());
  const std::vector<float> positions = drawn.decoded();
  const test::Vector<float> class_row = test::visible(random.normals(shape.cols));
  Guarded<float> values(rows, shape.cols, shape.cols + shape.gap);
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t i = 0; i < shape.cols; ++i) values.at(t, i) = random.normal();
  const Guarded<float> x = values;
  place_class_rows({.values = values.view(),
                    .class_row = class_row.data(),
                    .positions = {bytes.data(), format, view_rows, shape.cols},
                    .first = first},
                   queue);
  REQUIRE(queue.finish().ok());
  CHECK(values.intact());
  for (int64_t t = 0; t < rows; ++t) {
    const int64_t place = (first + t) % view_rows;
    for (int64_t i = 0; i < shape.cols; ++i) {
      const float base = place == 0 ? class_row[static_cast<size_t>(i)] : x.at(t, i);
      REQUIRE(values.at(t, i) == base + positions[static_cast<size_t>(place * shape.cols + i)]);
    }
  }
}

TEST_CASE("class rows begin, and every row gets its position, in every format of positions") {
  test::for_each_backend([](Queue& queue) {
    for (int i = 0; i < kWeightFormatCount; ++i) {
      const auto format = static_cast<WeightFormat>(i);
      for (const Shape& shape : {Shape{1, 16, 256, 0}, {3, 25, 768, 4}, {1, 9, 1024, 3}})
        for (const int64_t first : {0, 1, 7}) check_place(shape, format, first, queue);
    }
    for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kBF16})
      for (const Shape& shape : {Shape{1, 1, 8, 0}, {2, 4, 72, 1}, {1, 576, 1024, 0}, {5, 3, 1288, 8}})
        check_place(shape, format, 0, queue);
    check_place({1, 4, 32, 5}, WeightFormat::kQ8_0, 4, queue);
  });
}

TEST_CASE("a failed queue touches no class rows") {
  test::for_each_backend([](Queue& queue) {
    Guarded<float> values(2, 8);
    const test::Vector<float> ones(16, 1.0f);
    queue.fail(Status(Code::kCancelled));
    place_class_rows({.values = values.view(),
                      .class_row = ones.data(),
                      .positions = {reinterpret_cast<const uint8_t*>(ones.data()), WeightFormat::kF32, 2, 8}},
                     queue);
    queue.clear();
    REQUIRE(queue.finish().ok());
    CHECK(values.untouched_count() == 16);
  });
}

}  // namespace
}  // namespace ocellus
