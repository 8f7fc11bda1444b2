#include "kernels/rows/merge_similar_rows.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/device.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

/// Random rows and keys. Some rows join the most similar of every `target_every`-th one, some are targets' neighbours
/// that stay as they are.
struct Merge {
  Merge(int64_t rows_, int64_t width, int64_t dim_, int64_t target_every, test::Random& random)
      : dim(dim_), rows(rows_, width, width + 3), keys(rows_, dim, dim + 5), joined(1, rows_) {
    for (int64_t t = 0; t < rows_; ++t) {
      for (int64_t i = 0; i < width; ++i) rows.at(t, i) = random.normal();
      for (int64_t e = 0; e < dim; ++e) keys.at(t, e) = random.normal();
      if (t % target_every == 0) targets.push_back(static_cast<int32_t>(t));
      joined.at(0, t) = t % target_every == 0 || t % 5 == 3 ? kJoinsNone : kJoinsNearest;
    }
  }
  void run(Queue& queue) {
    merge_similar_rows({.rows = rows.view(),
                        .keys = keys.view(),
                        .targets = targets.data(),
                        .count = static_cast<int64_t>(targets.size()),
                        .joined = joined.data()},
                       queue);
    REQUIRE(queue.finish().ok());
    CHECK((rows.intact() && keys.intact() && joined.intact()));
  }
  double cosine(int64_t a, int64_t b) const {
    double ab = 0, aa = 0, bb = 0;
    for (int64_t e = 0; e < dim; ++e) {
      const auto x = static_cast<double>(keys.at(a, e)), y = static_cast<double>(keys.at(b, e));
      ab += x * y;
      aa += x * x;
      bb += y * y;
    }
    return aa == 0 || bb == 0 ? 0 : ab / std::sqrt(aa * bb);
  }
  int64_t dim;
  test::Guarded<float> rows, keys;
  test::Guarded<int32_t> joined;
  test::Vector<int32_t> targets;
};

TEST_CASE("merge_similar_rows averages every target with the rows whose keys are most like its own") {
  test::for_each_backend_and_target([](Queue& queue) {
    test::Random random(7);
    for (const auto& [count, width, dim, every] :
         {std::array<int64_t, 4>{1, 3, 8, 1}, {9, 1, 24, 4}, {70, 200, 64, 7}, {131, 33, 72, 20}, {40, 130, 5, 40}}) {
      CAPTURE(count);
      Merge merge(count, width, dim, every, random);
      const Merge before = merge;
      merge.run(queue);
      std::vector<std::vector<double>> sums(static_cast<size_t>(count),
                                            std::vector<double>(static_cast<size_t>(width)));
      std::vector<double> members(static_cast<size_t>(count), 1);
      for (int64_t t = 0; t < count; ++t) {
        const int32_t mark = before.joined.at(0, t), now = merge.joined.at(0, t);
        if (mark == kJoinsNone) REQUIRE(now == kJoinsNone);
        if (mark == kJoinsNone) continue;
        for (const int32_t target : merge.targets) REQUIRE(before.cosine(t, target) <= before.cosine(t, now) + 1e-5);
        ++members[static_cast<size_t>(now)];
        for (int64_t i = 0; i < width; ++i)
          sums[static_cast<size_t>(now)][static_cast<size_t>(i)] += static_cast<double>(before.rows.at(t, i));
      }
      for (int64_t t = 0; t < count; ++t)
        for (int64_t i = 0; i < width; ++i) {
          const auto own = static_cast<double>(before.rows.at(t, i));
          const double expected =
              (own + sums[static_cast<size_t>(t)][static_cast<size_t>(i)]) / members[static_cast<size_t>(t)];
          REQUIRE(std::abs(static_cast<double>(merge.rows.at(t, i)) - expected) < 1e-5);
        }
    }
  });
}

TEST_CASE(
    "merge_similar_rows leaves rows whose keys are zero or no numbers alone, and takes the first of equal targets") {
  test::for_each_backend([](Queue& queue) {
    test::Random random(8);
    Merge merge(12, 4, 16, 6, random);
    for (int64_t e = 0; e < 16; ++e) {
      merge.keys.at(1, e) = 0;
      merge.keys.at(2, e) = std::numeric_limits<float>::quiet_NaN();
      merge.keys.at(6, e) = merge.keys.at(0, e);
    }
    merge.run(queue);
    CHECK(merge.joined.at(0, 1) == kJoinsNone);
    CHECK(merge.joined.at(0, 2) == kJoinsNone);
    for (const int64_t row : {4, 5, 7, 9, 10, 11}) CHECK(merge.joined.at(0, row) == 0);

    Merge none(12, 4, 16, 6, random);
    const Merge before = none;
    none.targets.clear();
    none.run(queue);
    for (int64_t t = 0; t < 12; ++t)
      for (int64_t i = 0; i < 4; ++i) CHECK(none.rows.at(t, i) == before.rows.at(t, i));
  });
}

}  // namespace
}  // namespace ocellus
