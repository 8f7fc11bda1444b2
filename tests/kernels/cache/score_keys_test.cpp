#include "kernels/cache/score_keys.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "tests/support/device.h"
#include "tests/support/random.h"
#include "tests/support/small_run.h"

namespace ocellus {
namespace {

using test::Guarded;
using test::Random;

struct Shape {
  int64_t rows;
  int32_t heads, dim;
};

class KeysCase {
 public:
  KeysCase(const Shape& shape, bool has_zeros)
      : shape_(shape),
        capacity_(shape.rows + 3),
        keys_(static_cast<size_t>(shape.heads * capacity_ * shape.dim)),
        scores_(shape.heads, shape.rows, shape.rows + 5),
        anchors_(shape.heads * ScoreKeysArgs::kParts, shape.dim) {
    Random random(static_cast<uint64_t>(shape.rows + shape.dim));
    for (Half& key : keys_) key = float_to_half(random.normal() + 0.5f);  // keys have a common direction
    for (int32_t e = 0; has_zeros && e < shape.dim; ++e) key(0, shape.rows / 2)[e] = {};
  }

  Half* key(int64_t head, int64_t row) { return keys_.data() + (head * capacity_ + row) * shape_.dim; }

  void run(Queue& queue) {
    score_keys({.scores = scores_.view(),
                .rows = KvLayerRows::head_major(keys_.data(), nullptr, shape_.heads, shape_.dim, capacity_),
                .row_count = shape_.rows,
                .anchors = anchors_.view()},
               queue);
    REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
    CHECK(scores_.intact());
    CHECK(anchors_.intact());
  }

  double score(int64_t head, int64_t row) const { return static_cast<double>(scores_.at(head, row)); }

  /// The header's formula in double precision.
  std::vector<double> expected(int64_t head) {
    std::vector<double> anchor(static_cast<size_t>(shape_.dim)), scores;
    for (int64_t row = 0; row < shape_.rows; ++row) {
      const double length = length_of(head, row);
      for (int32_t e = 0; length > 0 && e < shape_.dim; ++e)
        anchor[static_cast<size_t>(e)] += value(head, row, e) / length;
    }
    double squares = 0;
    for (const double number : anchor) squares += number * number;
    for (int64_t row = 0; row < shape_.rows; ++row) {
      double product = 0;
      for (int32_t e = 0; e < shape_.dim; ++e) product += value(head, row, e) * anchor[static_cast<size_t>(e)];
      const double lengths = length_of(head, row) * std::sqrt(squares);
      scores.push_back(lengths > 0 ? 1 - product / lengths : 1.0);
    }
    return scores;
  }

 private:
  double value(int64_t head, int64_t row, int32_t e) { return static_cast<double>(half_to_float(key(head, row)[e])); }
  double length_of(int64_t head, int64_t row) {
    double squares = 0;
    for (int32_t e = 0; e < shape_.dim; ++e) squares += value(head, row, e) * value(head, row, e);
    return std::sqrt(squares);
  }

  Shape shape_;
  int64_t capacity_;
  test::Vector<Half> keys_;
  Guarded<float> scores_, anchors_;
};

TEST_CASE("score_keys gives the keys that are unlike the others the most") {
  test::for_each_backend([](Queue& queue) {
    for (const Shape& shape :
         {Shape{1, 1, 8}, Shape{7, 2, 64}, Shape{37, 3, 72}, Shape{129, 2, 80}, Shape{600, 4, 128}, Shape{41, 33, 256}})
      for (const bool has_zeros : {false, true}) {
        CAPTURE(shape.rows);
        CAPTURE(has_zeros);
        KeysCase keys(shape, has_zeros);
        keys.run(queue);
        for (int64_t head = 0; head < shape.heads; ++head) {
          const std::vector<double> wanted = keys.expected(head);
          for (int64_t row = 0; row < shape.rows; ++row)
            REQUIRE(keys.score(head, row) == doctest::Approx(wanted[static_cast<size_t>(row)]).epsilon(1e-5));
        }
      }
  });
}

TEST_CASE("score_keys passes a key on that is not a number, to the rows of its head alone") {
  test::for_each_backend([](Queue& queue) {
    const Shape shape{50, 2, 64};
    KeysCase keys(shape, false);
    keys.key(1, 20)[5] = float_to_half(NAN);
    keys.run(queue);
    const std::vector<double> wanted = keys.expected(0);
    for (int64_t row = 0; row < shape.rows; ++row) {
      CHECK(std::isnan(keys.score(1, row)));
      CHECK(keys.score(0, row) == doctest::Approx(wanted[static_cast<size_t>(row)]).epsilon(1e-5));
    }
  });
}

}  // namespace
}  // namespace ocellus
