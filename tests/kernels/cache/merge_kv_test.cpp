#include "kernels/cache/merge_kv.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
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
          Shape{90, 1, 89, 2, 128, 0.2, false}, Shape{60, 4, 50, 1, 512, 0.0}, Shape{50, 0, 50, 4, 80, 1.0}}) {
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

/// Turns a key by one row's angles, backwards if asked.
std::vector<double> turned(std::vector<double> key, const RopeParams& rope, const float* angles, bool back) {
  for (int32_t pair = 0; pair < rope.rotated / 2; ++pair) {
    const bool adjacent = rope.pairing == RopePairing::kAdjacent;
    const auto i = static_cast<size_t>(adjacent ? 2 * pair : pair);
    const size_t j = adjacent ? i + 1 : i + static_cast<size_t>(rope.rotated / 2);
    const double cosine = static_cast<double>(angles[2 * pair]);
    const double sine = static_cast<double>(angles[2 * pair + 1]) * (back ? -1 : 1), a = key[i], b = key[j];
    key[i] = a * cosine - b * sine;
    key[j] = a * sine + b * cosine;
  }
  return key;
}

struct TurnedShape {
  int64_t rows;
  int32_t heads, dim, rotated;
  RopePairing pairing;
  int32_t step;  // every step-th row is kept
};

/// The chunk's angles, and its keys of one head in double precision.
struct TurnedCase {
  explicit TurnedCase(const TurnedShape& given, Random& random)
      : shape(given),
        keys(static_cast<size_t>(given.heads * given.rows * given.dim)),
        values(keys.size()),
        rows(KvLayerRows::head_major(keys.data(), values.data(), given.heads, given.dim, given.rows)),
        angles(given.rows, given.rotated, given.rotated + 4),
        kept(given.heads, given.rows),
        counts(1, given.heads) {
    for (Half& half : keys) half = float_to_half(random.normal());
    for (Half& half : values) half = float_to_half(random.normal());
    for (int64_t row = 0; row < shape.rows; ++row)
      for (int32_t i = 0; i < shape.rotated / 2; ++i) {
        const float angle = static_cast<float>(row + 100) / static_cast<float>(1 + i * i);
        angles.at(row, 2 * i) = std::cos(angle);
        angles.at(row, 2 * i + 1) = std::sin(angle);
      }
    for (int32_t g = 0; g < shape.heads; ++g) {
      counts.at(0, g) = 0;
      for (int32_t row = g; row < shape.rows; row += shape.step) kept.at(g, counts.at(0, g)++) = row;
    }
  }
  MergeKvArgs args() {
    MergeKvArgs merged{.rows = rows, .first = 1, .end = shape.rows - 1};
    merged.kept_text = kept.view();
    merged.text_counts = counts.data();
    merged.most_kept = shape.rows;
    merged.rope.pairing = shape.pairing;
    merged.rope.rotated = shape.rotated;
    merged.angles = angles.view();
    return merged;
  }
  std::vector<double> key(const std::vector<Half>& from, int32_t head, int64_t row) const {
    std::vector<double> out;
    for (int32_t e = 0; e < shape.dim; ++e)
      out.push_back(static_cast<double>(half_to_float(from[static_cast<size_t>(rows.at(row, head) + e)])));
    return out;
  }

  TurnedShape shape;
  test::Vector<Half> keys, values;
  KvLayerRows rows;
  test::Guarded<float> angles;
  test::Guarded<int32_t> kept, counts;
};

TEST_CASE("with angles merge_kv averages keys as they were before their rotation, and values as they are") {
  test::for_each_backend([](Queue& queue) {
    uint64_t seed = 20;
    for (const TurnedShape& shape :
         {TurnedShape{40, 2, 64, 64, RopePairing::kHalves, 5}, TurnedShape{77, 3, 72, 40, RopePairing::kAdjacent, 9},
          TurnedShape{50, 1, 256, 128, RopePairing::kHalves, 3},
          TurnedShape{30, 2, 8, 2, RopePairing::kAdjacent, 30}}) {
      Random random(++seed);
      TurnedCase instance(shape, random);
      const std::vector<Half> before(instance.keys.begin(), instance.keys.end());
      const std::vector<Half> values_before(instance.values.begin(), instance.values.end());
      merge_kv(instance.args(), queue);
      REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
      Shape plain{shape.rows, 1, shape.rows - 1, shape.heads, shape.dim, 0};
      Kept kept;
      for (int32_t g = 0; g < shape.heads; ++g) {
        const int32_t* list = &instance.kept.at(g, 0);
        kept.text.emplace_back(list, list + instance.counts.at(0, g));
        kept.visual.emplace_back();
        std::vector<int32_t> anchors;
        for (const int32_t row : kept.text.back())
          if (row >= plain.first && row < plain.end) anchors.push_back(row);
        for (const int32_t anchor : anchors) {
          std::vector<double> sum(static_cast<size_t>(shape.dim));
          int count = 0;
          for (int64_t row = plain.first; row < plain.end; ++row) {
            if (nearest(anchors, row) != anchor) continue;
            const auto key =
                turned(instance.key(before, g, row), instance.args().rope, &instance.angles.at(row, 0), true);
            for (size_t e = 0; e < key.size(); ++e) sum[e] += key[e];
            ++count;
          }
          for (double& channel : sum) channel /= count;
          const auto wanted = turned(sum, instance.args().rope, &instance.angles.at(anchor, 0), false);
          const auto got = instance.key({instance.keys.begin(), instance.keys.end()}, g, anchor);
          for (size_t e = 0; e < wanted.size(); ++e) REQUIRE(std::abs(got[e] - wanted[e]) < 2e-3);
        }
      }
      check_rows(values_before, instance.values.data(), instance.rows, plain, kept);
    }
  });
}

TEST_CASE("one key rotated at every position stays what it is when merge_kv is given the angles, and not without") {
  test::for_each_backend([](Queue& queue) {
    for (const bool with_angles : {true, false}) {
      Random random(31);
      TurnedCase instance({33, 1, 64, 64, RopePairing::kHalves, 4}, random);
      const std::vector<double> key = instance.key({instance.keys.begin(), instance.keys.end()}, 0, 0);
      MergeKvArgs args = instance.args();
      for (int64_t row = 0; row < 33; ++row) {
        const auto rotated = turned(key, args.rope, &instance.angles.at(row, 0), false);
        for (size_t e = 0; e < rotated.size(); ++e)
          instance.keys[static_cast<size_t>(instance.rows.at(row, 0)) + e] =
              float_to_half(static_cast<float>(rotated[e]));
      }
      const std::vector<Half> before(instance.keys.begin(), instance.keys.end());
      if (!with_angles) args.angles = {};
      merge_kv(args, queue);
      REQUIRE(queue.finish().ok());
      double most = 0;
      for (size_t i = 0; i < before.size(); ++i)
        most =
            std::max(most, std::abs(static_cast<double>(half_to_float(before[i]) - half_to_float(instance.keys[i]))));
      CHECK((most < 5e-3) == with_angles);
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
