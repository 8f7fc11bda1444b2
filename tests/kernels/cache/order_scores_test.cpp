#include "kernels/cache/order_scores.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/device.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Guarded;
using test::Random;

struct Shape {
  int64_t rows, first, end;
  int32_t heads;
};

/// Rows first .. end - 1 as numbers from 0 on, from the lowest score up: by repeated search, not by sorting.
std::vector<int32_t> ordered(const Guarded<float>& scores, int64_t head, const Shape& shape) {
  std::vector<int32_t> order;
  std::vector<bool> taken(static_cast<size_t>(shape.end - shape.first));
  const auto value = [&](size_t i) {
    const float score = scores.at(head, shape.first + static_cast<int64_t>(i));
    return std::isnan(score) ? std::numeric_limits<double>::infinity() : static_cast<double>(score);
  };
  for (size_t place = 0; place < taken.size(); ++place) {
    size_t best = taken.size();
    for (size_t i = 0; i < taken.size(); ++i)
      if (!taken[i] && (best == taken.size() || value(i) < value(best))) best = i;
    taken[best] = true;
    order.push_back(static_cast<int32_t>(best));
  }
  return order;
}

TEST_CASE("order_scores puts the numbers of sorted rows in the place of their scores and touches no other row") {
  test::for_each_backend([](Queue& queue) {
    uint64_t seed = 40;
    for (const Shape& shape : {Shape{1, 0, 1, 1}, Shape{3, 1, 2, 2}, Shape{5, 2, 2, 1}, Shape{100, 1, 99, 3},
                               Shape{700, 4, 650, 2}, Shape{257, 0, 257, 9}}) {
      Random random(++seed);
      Guarded<float> scores(shape.heads, shape.rows, shape.rows + 3), given(shape.heads, shape.rows, shape.rows + 3);
      Guarded<int32_t> order(shape.heads, shape.rows, shape.rows + 2);
      for (int64_t g = 0; g < shape.heads; ++g)
        for (int64_t row = 0; row < shape.rows; ++row) {
          // Some equal ones, zeros of both signs, and one that is not a number.
          float score = static_cast<float>(random.integer(-30, 60)) / 8;
          if (row % 11 == 3) score = row % 2 == 0 ? 0.0f : -0.0f;
          if (row == 50) score = std::numeric_limits<float>::quiet_NaN();
          scores.at(g, row) = given.at(g, row) = score;
        }
      order_scores({.scores = scores.view(), .first = shape.first, .end = shape.end, .order = order.view()}, queue);
      REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
      CHECK(scores.intact());
      CHECK(order.intact());
      for (int64_t g = 0; g < shape.heads; ++g) {
        const std::vector<int32_t> wanted = ordered(given, g, shape);
        for (int64_t row = 0; row < shape.rows; ++row) {
          CAPTURE(row);
          if (row >= shape.first && row < shape.end)
            REQUIRE(scores.at(g, row) == static_cast<float>(wanted[static_cast<size_t>(row - shape.first)]));
          else if (!std::isnan(given.at(g, row)))
            REQUIRE(scores.at(g, row) == given.at(g, row));
        }
      }
    }
  });
}

}  // namespace
}  // namespace ocellus
