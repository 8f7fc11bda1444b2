#include "kernels/search/differing_bits.h"

#include <doctest/doctest.h>

#include <vector>

#include "tests/support/random.h"

namespace ocellus {

TEST_CASE("differing_bits counts the bits in which rows and a query differ") {
  struct Shape {
    int64_t rows, words, stride;
  };
  for (const Shape& shape : {Shape{1, 8, 8}, Shape{37, 16, 16}, Shape{5, 24, 31}, Shape{3, 512, 512}}) {
    test::Random random(static_cast<uint64_t>(shape.words));
    std::vector<uint64_t> rows(static_cast<size_t>(shape.rows * shape.stride)), query(static_cast<size_t>(shape.words));
    for (uint64_t& word : rows) word = random.bits();
    for (uint64_t& word : query) word = random.bits();
    for (int64_t w = 0; w < shape.words; ++w) rows[static_cast<size_t>(w)] = ~query[static_cast<size_t>(w)];
    std::vector<uint16_t> distances(static_cast<size_t>(shape.rows) + 1, 0xA7A7);
    differing_bits({.rows = {rows.data(), shape.rows, shape.words, shape.stride},
                    .query = query.data(),
                    .distances = distances.data()});
    CHECK(distances[0] == 64 * shape.words);
    CHECK(distances.back() == 0xA7A7);
    for (int64_t row = 0; row < shape.rows; ++row) {
      int expected = 0;
      for (int64_t bit = 0; bit < 64 * shape.words; ++bit) {
        const auto w = static_cast<size_t>(bit / 64);
        const uint64_t both = rows[static_cast<size_t>(row * shape.stride) + w] ^ query[w];
        expected += static_cast<int>(both >> (bit % 64) & 1);
      }
      CHECK(distances[static_cast<size_t>(row)] == expected);
    }
  }
}

}  // namespace ocellus
