#include "kernels/cache/cluster_kv.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/support/device.h"
#include "tests/support/kv_cache.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Random;

struct Shape {
  int64_t rows;
  int32_t heads, dim, clusters;
  double keep;  // probability that a row stays
  bool split = true;
};

/// One call's inputs, with the seeds among the kept rows.
struct Problem {
  Problem(const Shape& shape_, uint64_t seed)
      : shape(shape_),
        keys(static_cast<size_t>(shape.heads * capacity() * shape.dim)),
        values(keys.size()),
        lists{{shape.heads, shape.rows}, {shape.heads, shape.rows}},
        counts{{1, shape.heads}, {1, shape.heads}},
        seeds(shape.heads, shape.clusters, shape.clusters + 1),
        clusters(shape.heads, shape.rows, shape.rows + 3),
        centres(shape.heads, shape.clusters * (2 * shape.dim + 1)),
        scores(shape.heads, shape.rows, shape.rows + 2) {
    Random random(seed);
    for (Half& half : keys) half = float_to_half(random.normal());
    for (Half& half : values) half = float_to_half(random.normal());
    dropped.resize(static_cast<size_t>(shape.heads));
    for (int32_t g = 0; g < shape.heads; ++g) {
      std::fill_n(scores.view().row(g), shape.rows, 1.0f);
      counts[0].at(0, g) = counts[1].at(0, g) = 0;
      for (int32_t row = 0; row < shape.rows; ++row) {
        if (static_cast<double>(random.uniform(0, 1)) < shape.keep)
          keep(g, row, random.integer(0, 1) == 1);
        else
          dropped[static_cast<size_t>(g)].push_back(row);
      }
    }
  }

  void keep(int32_t g, int32_t row, bool visual) {
    const int list = shape.split && visual ? 1 : 0;
    int32_t* const begin = lists[list].view().row(g);
    int32_t* const end = begin + counts[list].at(0, g)++;
    *end = row;
    std::inplace_merge(begin, end, end + 1);
  }

  int64_t capacity() const { return shape.rows + 2; }
  KvLayerRows layer() {
    return KvLayerRows::head_major(keys.data(), values.data(), shape.heads, shape.dim, capacity());
  }
  MergeKvArgs kept() {
    MergeKvArgs args;
    args.rows = layer();
    args.kept_text = lists[0].view();
    args.text_counts = counts[0].data();
    if (shape.split) args.kept_visual = lists[1].view();
    if (shape.split) args.visual_counts = counts[1].data();
    return args;
  }
  /// Lists the seeds, and keeps them as a selection would.
  void run(Queue& queue) {
    seed_clusters({.kept = kept(), .row_count = shape.rows, .seeds = seeds.view(), .scores = scores.view()}, queue);
    REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
    for (int32_t g = 0; g < shape.heads; ++g)
      for (int32_t c = 0; c < shape.clusters; ++c)
        if (seeds.at(g, c) >= 0) keep(g, seeds.at(g, c), c % 2 == 1);
    cluster_kv({.kept = kept(),
                .row_count = shape.rows,
                .seeds = seeds.view(),
                .clusters = clusters.view(),
                .centres = centres.view()},
               queue);
    REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
    for (const bool intact : {seeds.intact(), clusters.intact(), centres.intact(), scores.intact()}) CHECK(intact);
  }

  Shape shape;
  test::Vector<Half> keys, values;
  test::Guarded<int32_t> lists[2], counts[2], seeds, clusters;
  test::Guarded<float> centres, scores;
  std::vector<std::vector<int32_t>> dropped;  // by head
};

using Rows = std::vector<std::vector<double>>;

/// The values of some rows of one head.
Rows rows_of(const Problem& p, const std::vector<Half>& data, int32_t g, const std::vector<int32_t>& numbers) {
  Rows rows;
  for (const int32_t row : numbers) {
    const auto first = static_cast<size_t>((g * p.capacity() + row) * p.shape.dim);
    rows.emplace_back();
    for (size_t e = 0; e < static_cast<size_t>(p.shape.dim); ++e)
      rows.back().push_back(static_cast<double>(half_to_float(data[first + e])));
  }
  return rows;
}

size_t nearest(const std::vector<double>& row, const Rows& centres) {
  size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (size_t c = 0; c < centres.size(); ++c) {
    double distance = 0;
    for (size_t e = 0; e < row.size(); ++e) distance += (row[e] - centres[c][e]) * (row[e] - centres[c][e]);
    if (distance < least) {
      least = distance;
      best = c;
    }
  }
  return best;
}

/// The means of each cluster's rows; those of an empty one stay.
void set_means(const Rows& rows, const std::vector<size_t>& clusters, Rows* means) {
  for (size_t c = 0; c < means->size(); ++c) {
    const auto size = static_cast<double>(std::count(clusters.begin(), clusters.end(), c));
    for (size_t e = 0; size > 0 && e < (*means)[c].size(); ++e) {
      double sum = 0;
      for (size_t i = 0; i < rows.size(); ++i) sum += clusters[i] == c ? rows[i][e] : 0;
      (*means)[c][e] = sum / size;
    }
  }
}

void check_near(const Problem& p, const Half* data, int32_t g, int32_t row, const std::vector<double>& wanted) {
  const Half* const values = data + (g * p.capacity() + row) * p.shape.dim;
  for (size_t e = 0; e < wanted.size(); ++e)
    REQUIRE(std::abs(static_cast<double>(half_to_float(values[e])) - wanted[e]) <=
            1.01 * test::half_rounding(wanted[e]) + 1e-5);
}

/// Lloyd's algorithm in double precision, of one head; all other rows stay.
void check_head(Problem& p, const std::vector<Half>& keys, const std::vector<Half>& values, int32_t g) {
  const std::vector<int32_t>& dropped = p.dropped[static_cast<size_t>(g)];
  std::vector<int32_t> seeds;
  for (int32_t c = 0; c < p.shape.clusters && p.seeds.at(g, c) >= 0; ++c) seeds.push_back(p.seeds.at(g, c));
  const size_t most = std::min(dropped.size(), static_cast<size_t>(p.shape.clusters));
  REQUIRE(seeds.size() == most);
  for (size_t c = 0; c < most; ++c) {
    REQUIRE(seeds[c] == dropped[(2 * c + 1) * dropped.size() / (2 * most)]);
    REQUIRE(std::isinf(p.scores.at(g, seeds[c])));
  }
  REQUIRE(std::count(p.scores.view().row(g), p.scores.view().row(g) + p.shape.rows, 1.0f) ==
          p.shape.rows - static_cast<int64_t>(most));
  const Rows rows = rows_of(p, keys, g, dropped);
  Rows centres = rows_of(p, keys, g, seeds), means = rows_of(p, values, g, seeds);
  std::vector<size_t> clusters(rows.size());
  for (int32_t round = 0; round < kClusterRounds; ++round) {
    for (size_t i = 0; i < rows.size(); ++i) clusters[i] = nearest(rows[i], centres);
    set_means(rows, clusters, &centres);
  }
  set_means(rows_of(p, values, g, dropped), clusters, &means);
  for (size_t i = 0; i < rows.size(); ++i) REQUIRE(p.clusters.at(g, dropped[i]) == static_cast<int32_t>(clusters[i]));
  std::vector<bool> changed(static_cast<size_t>(p.shape.rows));
  for (size_t c = 0; c < most; ++c) {
    check_near(p, p.keys.data(), g, seeds[c], centres[c]);
    check_near(p, p.values.data(), g, seeds[c], means[c]);
    changed[static_cast<size_t>(seeds[c])] = true;
  }
  for (int32_t row = 0; row < p.shape.rows; ++row) {
    const auto first = static_cast<size_t>((g * p.capacity() + row) * p.shape.dim);
    for (size_t e = first; !changed[static_cast<size_t>(row)] && e < first + static_cast<size_t>(p.shape.dim); ++e)
      REQUIRE((p.keys[e].bits == keys[e].bits && p.values[e].bits == values[e].bits));
  }
}

}  // namespace

TEST_CASE("cluster_kv makes of dropped rows what k-means from evenly spread ones makes of them") {
  test::for_each_backend([](Queue& queue) {
    uint64_t seed = 0;
    for (const Shape& shape : {Shape{1, 1, 8, 10, 1.0}, Shape{40, 3, 64, 10, 0.3}, Shape{130, 2, 72, 10, 0.05},
                               Shape{90, 2, 128, 3, 0.2, false}, Shape{60, 1, 512, 1, 0.0}, Shape{33, 4, 80, 10, 0.9},
                               Shape{300, 1, 64, 10, 0.5}}) {
      CAPTURE(shape.rows);
      Problem p(shape, ++seed);
      const std::vector<Half> keys(p.keys.begin(), p.keys.end()), values(p.values.begin(), p.values.end());
      p.run(queue);
      for (int32_t g = 0; g < shape.heads; ++g) check_head(p, keys, values, g);
    }
  });
}

TEST_CASE("cluster_kv leaves keys that are no numbers out, and seeds of empty clusters as they are") {
  test::for_each_backend([](Queue& queue) {
    Problem p({40, 1, 64, 4, 0.3}, 9);
    const int32_t dropped = p.dropped[0].front();
    for (int64_t e = 0; e < 64; ++e)  // all rows but one are alike: they are nearest to the first seed
      for (int64_t row = 0; row < 40; ++row)
        p.keys[static_cast<size_t>(row * 64 + e)] = row == dropped ? test::kHalfNan : float_to_half(0.5f);
    const std::vector<Half> values(p.values.begin(), p.values.end());
    p.run(queue);
    CHECK(p.clusters.at(0, dropped) == -1);
    for (int32_t c = 1; c < 4; ++c) {
      const auto at = static_cast<size_t>(p.seeds.at(0, c)) * 64;
      CHECK(std::memcmp(&values[at], &p.values[at], 64 * sizeof(Half)) == 0);
    }
    const auto first = static_cast<size_t>(p.seeds.at(0, 0)) * 64;
    CHECK(half_to_float(p.keys[first]) == 0.5f);
    CHECK(p.values[first].bits != values[first].bits);
  });
}

}  // namespace ocellus
