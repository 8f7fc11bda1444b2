#include "kernels/vision/patches.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "tests/support/device.h"
#include "tests/support/guard.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Guarded;

/// Whole numbers that an f16 holds, different for places near each other.
float number_at(int64_t place) { return static_cast<float>(place % 2039); }

struct CutCase {
  PatchGrid grid;
  int32_t patch = 1;
  int32_t spare = 0;  // pixels right of the patches, and below them
  int64_t views = 1;
  int64_t gap = 0;
  int32_t lead = 0;
};

void check_cut(const CutCase& c, Queue& queue) {
  const int32_t patch = c.patch, width = c.grid.cols * patch + c.spare, height = c.grid.lines * patch + c.spare;
  CAPTURE(width);
  CAPTURE(height);
  CAPTURE(patch);
  CAPTURE(c.views);
  CAPTURE(c.gap);
  CAPTURE(c.lead);
  const int64_t cols = 3 * patch * patch, view_rows = c.lead + c.grid.count();
  Guarded<float> pixels(c.views * 3 * height, width, width + c.gap);
  test::Activations out(queue, c.views * view_rows, cols, cols + 2 * c.gap);
  for (int64_t y = 0; y < c.views * 3 * height; ++y)
    for (int64_t x = 0; x < width; ++x) pixels.at(y, x) = number_at(y * width + x);
  // In two parts, the second of which is the larger one.
  const int64_t rows = c.views * view_rows, first = rows / 3;
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, first}, {first, rows}})
    if (end > begin)
      cut_patches({.pixels = pixels.view(),
                   .height = height,
                   .grid = c.grid,
                   .patch = patch,
                   .lead = c.lead,
                   .first = begin,
                   .output = out.view().slice_rows(begin, end - begin)},
                  queue);
  REQUIRE(queue.finish().ok());
  CHECK(out.intact());
  CHECK(out.untouched_count() == 0);
  for (int64_t view = 0; view < c.views; ++view) {
    for (int64_t row = view * view_rows; row < view * view_rows + c.lead; ++row)
      for (int64_t col = 0; col < cols; ++col) REQUIRE(out.get(row, col) == 0);
    for (int32_t i = 0; i < c.grid.count(); ++i) {
      const PatchGrid::Place at = c.grid.place(i);
      for (int64_t col = 0; col < cols; ++col) {
        const int64_t channel = col / (patch * patch), dy = col / patch % patch, dx = col % patch;
        REQUIRE(out.get(view * view_rows + c.lead + i, col) ==
                pixels.at((view * 3 + channel) * height + at.line * patch + dy, at.col * patch + dx));
      }
    }
  }
}

TEST_CASE("cut_patches puts every pixel where the formula says, dropping the remainder") {
  test::for_each_backend([&](Queue& queue) {
    const auto square = [](int32_t side, int32_t patch) {
      return CutCase{PatchGrid::square(side / patch), patch, side % patch};
    };
    const auto check = [&](CutCase c, int64_t views, int64_t gap, int32_t lead) {
      c.views = views;
      c.gap = gap;
      c.lead = lead;
      check_cut(c, queue);
    };
    for (const auto& [side, patch] : {std::pair<int32_t, int32_t>{4, 4}, {12, 3}, {33, 8}, {256, 16}, {384, 14}})
      for (const int64_t gap : {0, 4, 5}) check(square(side, patch), 1, gap, 0);
    check(square(33, 5), 3, 2, 0);
    check(square(64, 16), 4, 0, 0);
    check(square(56, 14), 2, 0, 0);
    for (const int32_t lead : {1, 4}) {
      check(square(7, 7), 1, 1, lead);
      check(square(30, 7), 3, 2, lead);
      check(square(56, 14), 2, 0, lead);
      check(square(64, 16), 2, 4, lead);
    }
    check({{.lines = 4, .cols = 10, .merge = 2}, 16}, 1, 0, 0);
    check({{.lines = 2, .cols = 30, .merge = 2}, 14}, 1, 2, 0);
    check({{.lines = 26, .cols = 18, .merge = 2, .window = 4}, 14}, 1, 0, 0);
    check({{.lines = 6, .cols = 9, .merge = 3, .window = 2}, 5, 3}, 2, 1, 1);
  });
}

/// By `shuffle_pixels`, and by `unfold_patches`, which has the same values in another order.
void check_shuffle(const PatchGrid& grid, int32_t scale, int64_t width, int64_t views, int64_t gap, Queue& queue,
                   int32_t lead = 0) {
  CAPTURE(grid.lines);
  CAPTURE(grid.cols);
  CAPTURE(scale);
  CAPTURE(width);
  CAPTURE(gap);
  CAPTURE(lead);
  const int64_t cells = grid.count() / (scale * scale), wide = scale * scale * width, view_rows = lead + grid.count();
  Guarded<float> input(views * view_rows, width, width + gap);
  test::Activations out(queue, views * cells, wide, wide + gap), unfolded = out;
  for (int64_t row = 0; row < views * view_rows; ++row)
    for (int64_t c = 0; c < width; ++c) input.at(row, c) = number_at(row * width + c);
  JoinPatchesArgs args = {
      .input = input.view(), .views = views, .grid = grid, .scale = scale, .lead = lead, .output = out.view()};
  shuffle_pixels(args, queue);
  args.output = unfolded.view();
  unfold_patches(args, queue);
  REQUIRE(queue.finish().ok());
  for (const test::Activations* rows : {&out, &unfolded}) {
    CHECK(rows->intact());
    CHECK(rows->untouched_count() == 0);
  }
  for (int64_t view = 0; view < views; ++view) {
    for (int32_t i = 0; i < grid.count(); ++i) {
      const PatchGrid::Place at = grid.place(i);
      for (int64_t c = 0; c < width; ++c) {
        const int64_t row = view * cells + at.line / scale * (grid.cols / scale) + at.col / scale;
        const int64_t place = at.line % scale * scale + at.col % scale;
        REQUIRE(out.get(row, place * width + c) == input.at(view * view_rows + lead + i, c));
        REQUIRE(unfolded.get(row, c * scale * scale + place) == input.at(view * view_rows + lead + i, c));
      }
    }
  }
}

TEST_CASE("average_patches takes the mean of neighbouring rows") {
  test::for_each_backend([](Queue& queue) {
    const auto check = [&](const PatchGrid& grid, int32_t scale, int64_t width, int64_t views, int32_t lead) {
      CAPTURE(grid.lines);
      CAPTURE(scale);
      CAPTURE(width);
      const int64_t cells = grid.count() / (scale * scale), view_rows = lead + grid.count();
      Guarded<float> input(views * view_rows, width, width + 3), out(views * cells, width, width + 5);
      test::Random random(static_cast<uint64_t>(width));
      for (int64_t row = 0; row < views * view_rows; ++row)
        for (int64_t c = 0; c < width; ++c) input.at(row, c) = random.normal();
      average_patches(
          {.input = input.view(), .views = views, .grid = grid, .scale = scale, .lead = lead, .output = out.view()},
          queue);
      REQUIRE(queue.finish().ok());
      CHECK(out.intact());
      std::vector<double> sums(static_cast<size_t>(views * cells * width));
      for (int64_t view = 0; view < views; ++view)
        for (int32_t i = 0; i < grid.count(); ++i) {
          const PatchGrid::Place at = grid.place(i);
          const int64_t row = view * cells + at.line / scale * (grid.cols / scale) + at.col / scale;
          for (int64_t c = 0; c < width; ++c)
            sums[static_cast<size_t>(row * width + c)] += static_cast<double>(input.at(view * view_rows + lead + i, c));
        }
      for (int64_t row = 0; row < views * cells; ++row)
        for (int64_t c = 0; c < width; ++c)
          REQUIRE(std::abs(static_cast<double>(out.at(row, c)) -
                           sums[static_cast<size_t>(row * width + c)] / (scale * scale)) < 1e-6);
    };
    check(PatchGrid::square(4), 2, 1, 1, 0);
    check(PatchGrid::square(64), 4, 1152, 1, 0);
    check(PatchGrid::square(6), 3, 37, 3, 1);
    check({.lines = 4, .cols = 10, .merge = 2}, 2, 24, 2, 0);
    check(PatchGrid::square(5), 1, 700, 2, 2);
  });
}

TEST_CASE("shuffle_pixels and unfold_patches join neighbouring rows in the order of the formula") {
  test::for_each_backend([&](Queue& queue) {
    for (const int64_t gap : {0, 3, 8}) {
      for (const auto& [grid, scale, width] :
           {std::tuple<int32_t, int32_t, int64_t>{2, 2, 1}, {6, 3, 5}, {4, 1, 8}, {16, 4, 384}, {27, 3, 100}})
        check_shuffle(PatchGrid::square(grid), scale, width, 1, gap, queue);
      check_shuffle(PatchGrid::square(8), 2, 24, 3, gap, queue);
      check_shuffle(PatchGrid::square(4), 2, 4400, 2, gap, queue);
      check_shuffle(PatchGrid::square(4), 2, 64, 3, gap, queue, 1);
      check_shuffle(PatchGrid::square(5), 1, 72, 3, gap, queue, 1);  // nothing is joined
      check_shuffle(PatchGrid::square(24), 1, 1024, 2, gap, queue, 1);
      check_shuffle(PatchGrid::square(6), 3, 5, 2, gap, queue, 4);
      check_shuffle({.lines = 4, .cols = 10, .merge = 2}, 2, 24, 1, gap, queue);
      check_shuffle({.lines = 26, .cols = 18, .merge = 2, .window = 4}, 2, 64, 2, gap, queue);
      check_shuffle({.lines = 6, .cols = 9, .merge = 3, .window = 2}, 3, 5, 2, gap, queue, 1);
    }
  });
}

TEST_CASE("shuffle_pixels writes f32 rows on every backend, for what reads no other") {
  test::for_each_backend([](Queue& queue) {
    Guarded<float> input(5, 16), out(1, 64);
    for (int64_t row = 0; row < 5; ++row)
      for (int64_t col = 0; col < 16; ++col) input.at(row, col) = 1.0f / static_cast<float>(row * 16 + col + 1);
    shuffle_pixels({.input = input.view(), .grid = PatchGrid::square(2), .scale = 2, .lead = 1, .output = out.view()},
                   queue);
    REQUIRE(queue.finish().ok());
    CHECK(out.intact());
    for (int64_t i = 0; i < 64; ++i) CHECK(out.at(0, i) == input.at(1 + i / 16, i % 16));
  });
}

}  // namespace
}  // namespace ocellus
