#include "kernels/vision/grid_positions.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "tests/support/device.h"
#include "tests/support/guard.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Guarded;
using test::Random;

/// The table between its rows, in double precision.
double table_at(const Guarded<float>& table, int32_t side, double y, double x, int64_t col) {
  double sum = 0;
  for (int32_t line = 0; line < side; ++line)
    for (int32_t at = 0; at < side; ++at)
      sum += std::max(0.0, 1 - std::abs(y - line)) * std::max(0.0, 1 - std::abs(x - at)) *
             static_cast<double>(table.at(int64_t{line} * side + at, col));
  return sum;
}

enum class Stretch { kCorners, kEdges, kMeans };

/// Shares of the table's lines, or columns, at one of a grid's, when the table is resized by a triangle, which for
/// means is as wide as a step.
std::vector<double> shares_at(int32_t at, int32_t count, int32_t side, Stretch stretch) {
  const double scale = static_cast<double>(side) / count, half = stretch == Stretch::kMeans ? std::max(scale, 1.0) : 1;
  std::vector<double> shares(static_cast<size_t>(side));
  for (int32_t i = 0; i < side; ++i)
    shares[static_cast<size_t>(i)] = std::max(0.0, 1 - std::abs(i + 0.5 - (at + 0.5) * scale) / half);
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= sum;
  return shares;
}

double sum_of(const Guarded<float>& table, const std::vector<double>& y, const std::vector<double>& x, int64_t col) {
  double sum = 0;
  for (size_t line = 0; line < y.size(); ++line)
    for (size_t at = 0; at < x.size(); ++at)
      sum += y[line] * x[at] * static_cast<double>(table.at(static_cast<int64_t>(line * x.size() + at), col));
  return sum;
}

void check_positions(const PatchGrid& grid, int32_t side, int64_t cols, int64_t first, Queue& queue,
                     Stretch stretch = Stretch::kCorners) {
  CAPTURE(grid.lines);
  CAPTURE(grid.cols);
  CAPTURE(side);
  CAPTURE(first);
  Random random(static_cast<uint64_t>(grid.count() + side));
  Guarded<float> table(int64_t{side} * side, cols, cols), values(grid.count() - first, cols, cols + 3);
  for (int64_t row = 0; row < int64_t{side} * side; ++row)
    for (int64_t c = 0; c < cols; ++c) table.at(row, c) = random.normal();
  for (int64_t t = 0; t < grid.count() - first; ++t)
    for (int64_t c = 0; c < cols; ++c) values.at(t, c) = random.normal();
  const Guarded<float> x = values;
  (stretch == Stretch::kMeans ? add_mean_positions : add_positions)({.values = values.view(),
                                                                     .table = table.view(),
                                                                     .side = side,
                                                                     .grid = grid,
                                                                     .first = first,
                                                                     .by_edges = stretch == Stretch::kEdges},
                                                                    queue);
  REQUIRE(queue.finish().ok());
  CHECK(values.intact());
  const auto step = [&](int32_t at, int32_t count) { return count > 1 ? at * (side - 1.0) / (count - 1) : 0.0; };
  for (int64_t t = 0; t < grid.count() - first; ++t) {
    const PatchGrid::Place place = grid.place(static_cast<int32_t>(first + t));
    const std::vector<double> down = shares_at(place.line, grid.lines, side, stretch),
                              across = shares_at(place.col, grid.cols, side, stretch);
    for (int64_t c = 0; c < cols; ++c) {
      const double position = stretch == Stretch::kCorners
                                  ? table_at(table, side, step(place.line, grid.lines), step(place.col, grid.cols), c)
                                  : sum_of(table, down, across, c);
      const double expected = static_cast<double>(x.at(t, c)) + position;
      REQUIRE(std::abs(static_cast<double>(values.at(t, c)) - expected) < 2e-5);
    }
  }
}

/// Walks window by window, as the order is defined.
void check_order(const PatchGrid& grid) {
  int32_t patch = 0;
  const int32_t down = grid.lines / grid.merge, across = grid.cols / grid.merge;
  for (int32_t top = 0; top < down; top += grid.window)
    for (int32_t left = 0; left < across; left += grid.window)
      for (int32_t line = top; line < std::min(top + grid.window, down); ++line)
        for (int32_t col = left; col < std::min(left + grid.window, across); ++col)
          for (int32_t inside = 0; inside < grid.merge * grid.merge; ++inside, ++patch) {
            const PatchGrid::Place at = grid.place(patch);
            REQUIRE(at.line == line * grid.merge + inside / grid.merge);
            REQUIRE(at.col == col * grid.merge + inside % grid.merge);
            REQUIRE(grid.index(at) == patch);
          }
  CHECK(patch == grid.count());
}

void check_angles(const PatchGrid& grid, int32_t rotated, float base, Queue& queue, bool cols_first = false,
                  bool alternates = false) {
  CAPTURE(rotated);
  Guarded<float> angles(grid.count(), rotated, rotated + 4);
  grid_angles({.grid = grid,
               .params = {.rotated = rotated, .base = base},
               .cols_first = cols_first,
               .alternates = alternates,
               .angles = angles.view()},
              queue);
  REQUIRE(queue.finish().ok());
  CHECK(angles.intact());
  for (int32_t i = 0; i < grid.count(); ++i) {
    const PatchGrid::Place at = grid.place(i);
    for (int32_t pair = 0; pair < rotated / 2; ++pair) {
      const int32_t quarter = rotated / 4;
      const double power = 2 * (pair % quarter) + (alternates && pair >= quarter ? 1 : 0);
      const double turn = std::pow(static_cast<double>(base), -power / (rotated / 2));
      const double angle = ((pair < quarter) != cols_first ? at.line : at.col) * turn;
      REQUIRE(std::abs(static_cast<double>(angles.at(i, 2 * pair)) - std::cos(angle)) < 1e-6);
      REQUIRE(std::abs(static_cast<double>(angles.at(i, 2 * pair + 1)) - std::sin(angle)) < 1e-6);
    }
  }
}

void check_windows(const PatchGrid& grid, Queue& queue) {
  Guarded<RowSpan> spans(1, grid.count());
  list_windows({.grid = grid, .spans = spans.data()}, queue);
  REQUIRE(queue.finish().ok());
  CHECK(spans.intact());
  const auto window_of = [&](int32_t patch) {
    const PatchGrid::Place at = grid.place(patch);
    const int32_t side = grid.merge * grid.window;
    return std::pair(at.line / side, at.col / side);
  };
  for (int32_t i = 0; i < grid.count(); ++i) {
    const RowSpan span = spans.at(0, i);
    REQUIRE(span.begin <= i);
    REQUIRE(span.end > i);
    REQUIRE(window_of(span.begin) == window_of(i));
    REQUIRE(window_of(span.end - 1) == window_of(i));
    if (span.begin > 0) REQUIRE(window_of(span.begin - 1) != window_of(i));
    if (span.end < grid.count()) REQUIRE(window_of(span.end) != window_of(i));
  }
}

}  // namespace

TEST_CASE("patches stand block after block of those that are joined") {
  const PatchGrid grid{.lines = 4, .cols = 6, .merge = 2};
  const int expected[24][2] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3},
                               {0, 4}, {0, 5}, {1, 4}, {1, 5}, {2, 0}, {2, 1}, {3, 0}, {3, 1},
                               {2, 2}, {2, 3}, {3, 2}, {3, 3}, {2, 4}, {2, 5}, {3, 4}, {3, 5}};
  for (int32_t i = 0; i < grid.count(); ++i) {
    CHECK(grid.place(i).line == expected[i][0]);
    CHECK(grid.place(i).col == expected[i][1]);
  }
  const PatchGrid plain{.lines = 3, .cols = 5};
  for (int32_t i = 0; i < plain.count(); ++i) CHECK(plain.place(i).line * 5 + plain.place(i).col == i);
}

TEST_CASE("patches of a window stand together, also at the edges, where windows are smaller") {
  check_order({.lines = 14, .cols = 10, .merge = 2, .window = 3});
  check_order({.lines = 46, .cols = 34, .merge = 2, .window = 4});
  check_order({.lines = 2, .cols = 40, .merge = 2, .window = 4});
  check_order({.lines = 40, .cols = 2, .merge = 2, .window = 4});
  check_order({.lines = 5, .cols = 7, .merge = 1, .window = 2});
}

TEST_CASE("half of a patch's rotation is that of its line, half that of its column") {
  test::for_each_backend([&](Queue& queue) {
    check_angles({.lines = 4, .cols = 6, .merge = 2}, 16, 10000.0f, queue);
    check_angles({.lines = 10, .cols = 14, .merge = 2, .window = 2}, 80, 10000.0f, queue);
    check_angles({.lines = 60, .cols = 2, .merge = 2}, 72, 100.0f, queue);
    check_angles({.lines = 9, .cols = 12}, 64, 100.0f, queue, true);
    check_angles({.lines = 22, .cols = 8, .merge = 2}, 64, 10000.0f, queue, false, true);  // Pixtral
    check_angles({.lines = 3, .cols = 40}, 8, 10000.0f, queue, false, true);
  });
}

TEST_CASE("a patch sees the patches of its window") {
  test::for_each_backend([&](Queue& queue) {
    check_windows({.lines = 14, .cols = 10, .merge = 2, .window = 3}, queue);
    check_windows({.lines = 46, .cols = 34, .merge = 2, .window = 4}, queue);
    check_windows({.lines = 2, .cols = 6, .merge = 2, .window = 4}, queue);
  });
}

TEST_CASE("positions of axes are a column's and a line's") {
  constexpr int32_t kSide = 20;
  constexpr int64_t kCols = 37, kFirst = 5;
  const PatchGrid grid{.lines = 9, .cols = 12};
  test::for_each_backend([&](Queue& queue) {
    Random random(8);
    Guarded<float> table(2 * kSide, kCols), values(grid.count() - kFirst, kCols, kCols + 3);
    for (int64_t row = 0; row < 2 * kSide; ++row)
      for (int64_t c = 0; c < kCols; ++c) table.at(row, c) = random.normal();
    for (int64_t t = 0; t < grid.count() - kFirst; ++t)
      for (int64_t c = 0; c < kCols; ++c) values.at(t, c) = random.normal();
    const Guarded<float> x = values;
    add_axis_positions({.values = values.view(), .table = table.view(), .side = kSide, .grid = grid, .first = kFirst},
                       queue);
    REQUIRE(queue.finish().ok());
    CHECK(values.intact());
    for (int64_t t = 0; t < grid.count() - kFirst; ++t) {
      const int64_t line = (t + kFirst) / grid.cols, col = (t + kFirst) % grid.cols;
      for (int64_t c = 0; c < kCols; ++c) {
        const double expected = double{x.at(t, c)} + double{table.at(col, c)} + double{table.at(kSide + line, c)};
        REQUIRE(std::abs(values.at(t, c) - expected) < 2e-6);
      }
    }
  });
}

TEST_CASE("positions are read between the rows of a table, whose corners are the grid's") {
  test::for_each_backend([&](Queue& queue) {
    check_positions({.lines = 8, .cols = 8, .merge = 2}, 8, 24, 0, queue);  // the table itself
    check_positions({.lines = 4, .cols = 6, .merge = 2}, 8, 24, 0, queue);
    check_positions({.lines = 22, .cols = 10, .merge = 2}, 8, 8, 0, queue);
    check_positions({.lines = 2, .cols = 14, .merge = 2}, 5, 9, 7, queue);
    check_positions({.lines = 1, .cols = 3}, 5, 9, 0, queue);
  });
}

TEST_CASE("positions of a table with the grid's edges lie between its rows, or are means of them") {
  test::for_each_backend([&](Queue& queue) {
    for (const Stretch stretch : {Stretch::kEdges, Stretch::kMeans}) {
      check_positions({.lines = 8, .cols = 8, .merge = 2}, 8, 24, 0, queue, stretch);  // the table itself
      check_positions({.lines = 4, .cols = 6, .merge = 2}, 8, 24, 0, queue, stretch);
      check_positions({.lines = 22, .cols = 10, .merge = 2}, 8, 8, 0, queue, stretch);
      check_positions({.lines = 2, .cols = 14, .merge = 2}, 16, 9, 7, queue, stretch);
      check_positions({.lines = 1, .cols = 3}, 5, 9, 0, queue, stretch);
      Random random(11);
      for (int i = 0; i < 8; ++i)
        check_positions({.lines = static_cast<int32_t>(2 * random.integer(1, 12)),
                         .cols = static_cast<int32_t>(2 * random.integer(1, 12)),
                         .merge = 2},
                        static_cast<int32_t>(random.integer(1, 16)), random.integer(1, 40), 0, queue, stretch);
    }
  });
}

}  // namespace ocellus
