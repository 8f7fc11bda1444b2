#include "kernels/vision/pool_attention.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "tests/support/device.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

struct PoolCase {
  PatchGrid grid;
  int32_t scale, lead, heads, dim;
  bool head_major;
};

/// Whether patch `i` is joined to row `t` of the view.
bool joins(const PoolCase& c, int64_t t, int32_t i) {
  const PatchGrid::Place at = c.grid.place(i);
  return at.line / c.scale * (c.grid.cols / c.scale) + at.col / c.scale == t;
}

void check(const PoolCase& c, Queue& queue) {
  CAPTURE(c.grid.lines);
  CAPTURE(c.grid.cols);
  CAPTURE(c.dim);
  test::Random random(static_cast<uint64_t>(c.grid.count() + c.dim));
  const int64_t rows = c.lead + c.grid.count(), tokens = c.grid.count() / (c.scale * c.scale), queries = 7;
  test::Guarded<float> scores(c.heads, rows, rows + 3);
  for (int64_t h = 0; h < c.heads; ++h)
    for (int64_t i = 0; i < rows; ++i) scores.at(h, i) = random.uniform(0, 3);
  test::Vector<Half> keys;
  for (int64_t i = 0; i < rows * c.heads * c.dim; ++i) keys.push_back(float_to_half(random.normal()));
  const KvLayerRows major = KvLayerRows::head_major(keys.data(), nullptr, c.heads, c.dim, rows);
  const KvLayerRows by_row = {keys.data(), nullptr, c.heads, c.dim, rows, int64_t{c.heads} * c.dim, c.dim, 0};
  const KvLayerRows& given = c.head_major ? major : by_row;
  test::Guarded<float> out(tokens, 1 + c.dim, c.dim + 4);
  pool_attention({.scores = scores.view(),
                  .queries = queries,
                  .rows = given,
                  .grid = c.grid,
                  .scale = c.scale,
                  .lead = c.lead,
                  .output = out.view()},
                 queue);
  REQUIRE(queue.finish().ok());
  CHECK(out.intact());
  CHECK(out.untouched_count() == 0);
  const double count = c.heads * c.scale * c.scale;
  for (int64_t t = 0; t < tokens; ++t) {
    std::vector<double> expected(static_cast<size_t>(1 + c.dim));
    for (int32_t i = 0; i < c.grid.count(); ++i)
      for (int32_t h = 0; h < c.heads && joins(c, t, i); ++h) {
        expected[0] += static_cast<double>(scores.at(h, c.lead + i)) / (count * queries);
        for (int64_t e = 0; e < c.dim; ++e)
          expected[static_cast<size_t>(1 + e)] +=
              static_cast<double>(half_to_float(given.keys[given.at(c.lead + i, h) + e])) / count;
      }
    for (int64_t col = 0; col <= c.dim; ++col)
      REQUIRE(std::abs(static_cast<double>(out.at(t, col)) - expected[static_cast<size_t>(col)]) < 2e-6);
  }
}

TEST_CASE("pool_attention gives every row the mean attention and the mean key of its patches, in every order of them") {
  test::for_each_backend_and_target([](Queue& queue) {
    for (const PoolCase& c : {PoolCase{{1, 1}, 1, 0, 1, 8, true}, PoolCase{{5, 7}, 1, 1, 3, 24, true},
                              PoolCase{{6, 8}, 2, 0, 4, 72, true}, PoolCase{{9, 6}, 3, 1, 2, 64, false},
                              PoolCase{{10, 14, 2, 3}, 2, 0, 5, 80, false}, PoolCase{{4, 4, 2}, 2, 0, 2, 136, false}})
      check(c, queue);
  });
}

}  // namespace
}  // namespace ocellus
