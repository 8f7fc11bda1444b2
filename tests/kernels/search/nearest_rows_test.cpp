#include "kernels/search/nearest_rows.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "tests/support/random.h"
#include "tests/support/visible_memory.h"

namespace ocellus {
namespace {

using test::Random;

struct Shape {
  int64_t rows, width, stride, capacity;
  int64_t pieces = 1;  // calls
};

std::vector<NearRow> expect_best(const std::vector<int8_t>& codes, const std::vector<float>& steps,
                                 const std::vector<int16_t>& query, const Shape& shape) {
  std::vector<NearRow> all;
  for (int64_t row = 0; row < shape.rows; ++row) {
    double sum = 0;
    for (int64_t w = 0; w < shape.width; ++w)
      sum += codes[static_cast<size_t>(row * shape.stride + w)] * query[static_cast<size_t>(w)];
    all.push_back({row, steps[static_cast<size_t>(row)] * static_cast<float>(sum)});
  }
  std::sort(all.begin(), all.end());
  all.resize(static_cast<size_t>(std::min(shape.rows, shape.capacity)));
  return all;
}

}  // namespace

TEST_CASE("nearest_rows keeps the rows of greatest product, of equal ones the first") {
  uint64_t seed = 60;
  for (const Shape& shape : {Shape{1, 64, 64, 1}, Shape{7, 64, 64, 3}, Shape{5, 128, 192, 9}, Shape{1000, 448, 448, 10},
                             Shape{777, 1024, 1024, 64, 5}, Shape{300, 16384, 16384, 4, 2}}) {
    CAPTURE(shape.rows);
    CAPTURE(shape.width);
    Random random(++seed);
    std::vector<int8_t> codes(static_cast<size_t>(shape.rows * shape.stride), 127);
    std::vector<float> steps = random.uniforms(shape.rows, 0.001f, 0.01f);
    std::vector<int16_t> query(static_cast<size_t>(shape.width));
    for (int8_t& code : codes) code = static_cast<int8_t>(random.integer(-127, 127));
    for (int16_t& number : query)
      number = static_cast<int16_t>(random.integer(-kNearestQueryLimit, kNearestQueryLimit));
    // One row of the greatest possible sum, and some equal ones.
    for (int64_t w = 0; w < shape.width; ++w)
      codes[static_cast<size_t>(w)] = query[static_cast<size_t>(w)] < 0 ? -127 : 127;
    for (int64_t row = 3; row < shape.rows; row += 4) {
      std::copy_n(codes.begin() + 2 * shape.stride, shape.stride, codes.begin() + row * shape.stride);
      steps[static_cast<size_t>(row)] = steps[2];
    }
    std::vector<NearRow> best(static_cast<size_t>(shape.capacity) + 1, NearRow{-7, 0});
    int64_t count = 0;
    for (int64_t piece = 0; piece < shape.pieces; ++piece) {
      const int64_t begin = shape.rows * piece / shape.pieces, end = shape.rows * (piece + 1) / shape.pieces;
      nearest_rows({.codes = {codes.data() + begin * shape.stride, end - begin, shape.width, shape.stride},
                    .steps = steps.data() + begin,
                    .query = query.data(),
                    .first = begin,
                    .best = best.data(),
                    .capacity = shape.capacity,
                    .count = &count});
    }
    const std::vector<NearRow> expected = expect_best(codes, steps, query, shape);
    REQUIRE(count == static_cast<int64_t>(expected.size()));
    CHECK(best.back().row == -7);
    std::sort_heap(best.begin(), best.begin() + count);
    for (size_t i = 0; i < expected.size(); ++i) {
      CHECK(best[i].row == expected[i].row);
      CHECK(best[i].score == expected[i].score);
    }
  }
}

}  // namespace ocellus
