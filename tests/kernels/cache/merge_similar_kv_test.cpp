#include "kernels/cache/merge_similar_kv.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/support/device.h"
#include "tests/support/kv_cache.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Random;

struct Shape {
  int64_t rows;
  int32_t heads, dim;
  double keep;  // probability that a row stays
  bool split = true;
};

/// One call's inputs. Keys point into few directions, so that the most similar one is clear of rounding.
struct Problem {
  Problem(const Shape& shape_, uint64_t seed)
      : shape(shape_),
        keys(static_cast<size_t>(shape.heads * capacity() * shape.dim)),
        values(keys.size()),
        text(shape.heads, shape.rows),
        visual(shape.heads, shape.rows),
        text_counts(1, shape.heads),
        visual_counts(1, shape.heads),
        targets(shape.heads, shape.rows, shape.rows + 3) {
    Random random(seed);
    for (Half& half : keys) half = float_to_half(random.normal());
    for (Half& half : values) half = float_to_half(random.normal());
    for (int32_t g = 0; g < shape.heads; ++g) {
      kept.emplace_back();
      std::vector<int32_t> lists[2];
      for (int32_t row = 0; row < shape.rows; ++row)
        if (static_cast<double>(random.uniform(0, 1)) < shape.keep)
          lists[shape.split && random.integer(0, 1) == 1 ? 1 : 0].push_back(row);
      std::copy(lists[0].begin(), lists[0].end(), text.view().row(g));
      std::copy(lists[1].begin(), lists[1].end(), visual.view().row(g));
      text_counts.at(0, g) = static_cast<int32_t>(lists[0].size());
      visual_counts.at(0, g) = static_cast<int32_t>(lists[1].size());
      for (const auto& list : lists) kept.back().insert(kept.back().end(), list.begin(), list.end());
      most = std::max(most, std::ssize(kept.back()));
    }
  }

  int64_t capacity() const { return shape.rows + 2; }
  KvLayerRows layer() {
    return KvLayerRows::head_major(keys.data(), values.data(), shape.heads, shape.dim, capacity());
  }
  MergeSimilarArgs args(SimilarMerge how) {
    MergeSimilarArgs args;
    args.kept.rows = layer();
    args.kept.kept_text = text.view();
    args.kept.text_counts = text_counts.data();
    if (shape.split) args.kept.kept_visual = visual.view();
    if (shape.split) args.kept.visual_counts = visual_counts.data();
    args.kept.most_kept = most;
    args.row_count = shape.rows;
    args.how = how;
    args.targets = targets.view();
    return args;
  }

  Shape shape;
  test::Vector<Half> keys, values;
  test::Guarded<int32_t> text, visual, text_counts, visual_counts, targets;
  std::vector<std::vector<int32_t>> kept;  // by head, in the order of the lists
  int64_t most = 0;
};

double at(const std::vector<Half>& data, const KvLayerRows& rows, int64_t row, int64_t head, int32_t channel) {
  return static_cast<double>(half_to_float(data[static_cast<size_t>(rows.at(row, head) + channel)]));
}

double cosine(const std::vector<Half>& keys, const KvLayerRows& rows, int64_t a, int64_t b, int64_t head) {
  double product = 0, of_a = 0, of_b = 0;
  for (int32_t e = 0; e < rows.head_dim; ++e) {
    const double x = at(keys, rows, a, head, e), y = at(keys, rows, b, head, e);
    product += x * y;
    of_a += x * x;
    of_b += y * y;
  }
  return product / std::sqrt(of_a * of_b);
}

/// Targets are the greatest cosines within rounding, and none for kept rows.
void check_targets(const Problem& p, const std::vector<Half>& keys, const KvLayerRows& rows) {
  for (int32_t g = 0; g < p.shape.heads; ++g) {
    const std::vector<int32_t>& kept = p.kept[static_cast<size_t>(g)];
    for (int32_t row = 0; row < p.shape.rows; ++row) {
      const int32_t target = p.targets.at(g, row);
      CAPTURE(row);
      if (kept.empty() || std::find(kept.begin(), kept.end(), row) != kept.end()) {
        REQUIRE(target == -1);
        continue;
      }
      REQUIRE((target >= 0 && target < std::ssize(kept)));
      double best = -1;
      for (const int32_t other : kept) best = std::max(best, cosine(keys, rows, row, other, g));
      REQUIRE(cosine(keys, rows, row, kept[static_cast<size_t>(target)], g) >= best - 1e-5);
    }
  }
}

/// Kept rows are merged as the header says with those whose targets they are; all others stay.
void check_rows(const Problem& p, const std::vector<Half>& before, const Half* after, const KvLayerRows& rows,
                SimilarMerge how) {
  for (int32_t g = 0; g < p.shape.heads; ++g) {
    const std::vector<int32_t>& kept = p.kept[static_cast<size_t>(g)];
    for (int32_t row = 0; row < p.shape.rows; ++row) {
      const auto place = std::find(kept.begin(), kept.end(), row);
      for (int32_t e = 0; e < p.shape.dim; e += 5) {
        const double own = at(before, rows, row, g, e);
        double sum = 0, count = 0;
        for (int32_t from = 0; place != kept.end() && from < p.shape.rows; ++from) {
          if (p.targets.at(g, from) != place - kept.begin()) continue;
          sum +=
              how == SimilarMerge::kAverage ? at(before, rows, from, g, e) : (at(before, rows, from, g, e) + own) / 2;
          ++count;
        }
        const double wanted = (own + sum) / (1 + count);
        const double got = static_cast<double>(half_to_float(after[rows.at(row, g) + e]));
        CAPTURE(row);
        REQUIRE(std::abs(got - wanted) <= (count == 0 ? 0 : 1.01 * test::half_rounding(wanted) + 1e-5));
      }
    }
  }
}

TEST_CASE("merge_similar_kv merges every dropped row into the kept row most like it") {
  test::for_each_backend([](Queue& queue) {
    uint64_t seed = 0;
    for (const Shape& shape : {Shape{1, 1, 8, 1.0}, Shape{40, 3, 64, 0.3}, Shape{130, 2, 72, 0.05},
                               Shape{90, 2, 128, 0.2, false}, Shape{60, 1, 512, 0.0}, Shape{33, 4, 80, 1.0}}) {
      for (const SimilarMerge how : {SimilarMerge::kAverage, SimilarMerge::kPivot}) {
        Problem p(shape, ++seed);
        const std::vector<Half> keys(p.keys.begin(), p.keys.end()), values(p.values.begin(), p.values.end());
        for (int32_t g = 0; g < shape.heads; ++g) std::fill_n(p.targets.view().row(g), shape.rows, -1);
        merge_similar_kv(p.args(how), queue);
        REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
        CHECK(p.targets.intact());
        check_targets(p, keys, p.layer());
        check_rows(p, keys, p.keys.data(), p.layer(), how);
        check_rows(p, values, p.values.data(), p.layer(), how);
      }
    }
  });
}

TEST_CASE("merge_similar_kv leaves keys that are no numbers out") {
  test::for_each_backend([](Queue& queue) {
    Problem p({20, 1, 64, 0.5}, 9);
    int32_t dropped = 0;
    while (std::find(p.kept[0].begin(), p.kept[0].end(), dropped) != p.kept[0].end()) ++dropped;
    p.keys[static_cast<size_t>(p.layer().at(dropped, 0) + 3)] = test::kHalfNan;
    merge_similar_kv(p.args(SimilarMerge::kPivot), queue);
    REQUIRE(queue.finish().ok());
    CHECK(p.targets.at(0, dropped) == -1);
    for (const int32_t row : p.kept[0])
      for (int32_t e = 0; e < 64; ++e)
        CHECK(!std::isnan(half_to_float(p.keys[static_cast<size_t>(p.layer().at(row, 0) + e)])));
  });
}

}  // namespace
}  // namespace ocellus
