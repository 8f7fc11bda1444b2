#include "kernels/merge_kv.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "tests/support/device.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Random;

struct Shape {
  int64_t rows, first, end;
  int32_t heads, dim;
  double keep;  // probability that a row stays
  bool split = true;
};

/// The kept rows of each head, in two ascending lists.
struct Kept {
  std::vector<std::vector<int32_t>> text, visual;
};

Kept choose(const Shape& shape, Random& random) {
  Kept kept;
  for (int32_t g = 0; g < shape.heads; ++g) {
    kept.text.emplace_back();
    kept.visual.emplace_back();
    for (int32_t row = 0; row < shape.rows; ++row) {
      if (static_cast<double>(random.uniform(0, 1)) >= shape.keep) continue;
      (shape.split && random.integer(0, 2) > 0 ? kept.visual : kept.text).back().push_back(row);
    }
  }
  return kept;
}

/// The kept row of [first, end) nearest to `row`, the lower of two; -1 if there is none.
int64_t nearest(const std::vector<int32_t>& anchors, int64_t row) {
  int64_t best = -1;
  for (const int32_t anchor : anchors)
    if (best < 0 || std::abs(anchor - row) < std::abs(best - row)) best = anchor;
  return best;
}

/// A channel of the mean of the rows that join `anchor`, in double precision.
double mean_of(const std::vector<Half>& before, const KvLayerRows& rows, const Shape& shape,
               const std::vector<int32_t>& anchors, int32_t head, int64_t anchor, int32_t channel) {
  double sum = 0, count = 0;
  for (int64_t row = shape.first; row < shape.end; ++row) {
    if (nearest(anchors, row) != anchor) continue;
    sum += static_cast<double>(half_to_float(before[static_cast<size_t>(rows.at(row, head) + channel)]));
    ++count;
  }
  return sum / count;
}

void check_rows(const std::vector<Half>& before, const Half* after, const KvLayerRows& rows, const Shape& shape,
                const Kept& kept) {
  for (int32_t g = 0; g < shape.heads; ++g) {
    std::vector<int32_t> anchors;
    for (const auto* list : {&kept.text[static_cast<size_t>(g)], &kept.visual[static_cast<size_t>(g)]})
      for (const int32_t row : *list)
        if (row >= shape.first && row < shape.end) anchors.push_back(row);
    std::sort(anchors.begin(), anchors.end());
    for (int64_t row = 0; row < shape.rows; ++row) {
      const bool is_anchor = std::binary_search(anchors.begin(), anchors.end(), static_cast<int32_t>(row));
      for (int32_t e = 0; e < shape.dim; e += is_anchor ? 7 : 1) {
        const auto at = static_cast<size_t>(rows.at(row, g) + e);
        CAPTURE(row);
        if (!is_anchor) {
          REQUIRE(after[at].bits == before[at].bits);
          continue;
        }
        const double wanted = mean_of(before, rows, shape, anchors, g, row, e);
        REQUIRE(std::abs(static_cast<double>(half_to_float(after[at])) - wanted) <=
                1.01 * test::half_rounding(wanted) + 1e-6);
      }
    }
  }
}

TEST_CASE("merge_kv makes every kept row the mean of the rows nearest to it and touches nothing else") {
  test::for_each_backend([](Queue& queue) {
    uint64_t seed = 0;
    for (const Shape& shape :
         {Shape{1, 0, 1, 1, 8, 1.0}, Shape{40, 1, 39, 3, 64, 0.3}, Shape{130, 1, 114, 2, 72, 0.05},
          Shape{90, 1, 89, 2, 128, 0.2, false}, Shape{60, 4, 50, 1, 256, 0.0}, Shape{50, 0, 50, 4, 80, 1.0}}) {
      Random random(++seed);
      const int64_t capacity = shape.rows + 2;
      test::Vector<Half> keys(static_cast<size_t>(shape.heads * capacity * shape.dim)), values(keys.size());
      for (Half& half : keys) half = float_to_half(random.normal());
      for (Half& half : values) half = float_to_half(random.normal());
      const std::vector<Half> keys_before(keys.begin(), keys.end()), values_before(values.begin(), values.end());
      const KvLayerRows rows = KvLayerRows::head_major(keys.data(), values.data(), shape.heads, shape.dim, capacity);
      const Kept kept = choose(shape, random);
      test::Guarded<int32_t> text(shape.heads, shape.rows), visual(shape.heads, shape.rows);
      test::Guarded<int32_t> text_counts(1, shape.heads), visual_counts(1, shape.heads);
      int64_t most = 0;
      for (int32_t g = 0; g < shape.heads; ++g) {
        const auto& of_text = kept.text[static_cast<size_t>(g)];
        const auto& of_visual = kept.visual[static_cast<size_t>(g)];
        std::copy(of_text.begin(), of_text.end(), text.view().row(g));
        std::copy(of_visual.begin(), of_visual.end(), visual.view().row(g));
        text_counts.at(0, g) = static_cast<int32_t>(of_text.size());
        visual_counts.at(0, g) = static_cast<int32_t>(of_visual.size());
        most = std::max(most, std::ssize(of_text) + std::ssize(of_visual));
      }
      MergeKvArgs args{.rows = rows, .first = shape.first, .end = shape.end};
      args.kept_text = text.view();
      args.text_counts = text_counts.data();
      if (shape.split) args.kept_visual = visual.view();
      if (shape.split) args.visual_counts = visual_counts.data();
      args.most_kept = most;
      merge_kv(args, queue);
      REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
      check_rows(keys_before, keys.data(), rows, shape, kept);
      check_rows(values_before, values.data(), rows, shape, kept);
    }
  });
}

TEST_CASE("the buckets of merge_kv share out the rows between the protected ones") {
  const test::Vector<int32_t> text = {0, 9, 30}, visual = {4, 10, 29};
  const merge::KeptRows kept = {{text.data(), visual.data()}, {3, 3}};
  const MergeKvArgs args{.first = 1, .end = 30};
  std::vector<int> owners(31, 0);
  for (int32_t i = 0; i < kept.count(); ++i) {
    const merge::Bucket bucket = merge::bucket_of(args, kept, i);
    for (int64_t row = bucket.first; row < bucket.end; ++row) ++owners[static_cast<size_t>(row)];
    const bool is_protected = bucket.anchor == 0 || bucket.anchor == 30;
    CHECK((bucket.first <= bucket.anchor && bucket.anchor < bucket.end) == !is_protected);
  }
  for (int64_t row = 0; row <= 30; ++row) CHECK(owners[static_cast<size_t>(row)] == (row >= 1 && row < 30 ? 1 : 0));
}

}  // namespace
}  // namespace ocellus
