#include "kernels/vision/patches.h"

#include <doctest/doctest.h>

#include "tests/support/device.h"
#include "tests/support/guard.h"

namespace ocellus {
namespace {

using test::Guarded;

/// Whole numbers that an f16 holds, different for places near each other.
float number_at(int64_t place) { return static_cast<float>(place % 2039); }

void check_cut(int32_t side, int32_t patch, int64_t views, int64_t gap, Queue& queue, int32_t lead = 0) {
  CAPTURE(side);
  CAPTURE(patch);
  CAPTURE(views);
  CAPTURE(gap);
  CAPTURE(lead);
  const int64_t grid = side / patch, width = 3 * patch * patch, view_rows = lead + grid * grid;
  Guarded<float> pixels(views * 3 * side, side, side + gap);
  test::Activations out(queue, views * view_rows, width, width + 2 * gap);
  for (int64_t y = 0; y < views * 3 * side; ++y)
    for (int64_t x = 0; x < side; ++x) pixels.at(y, x) = number_at(y * side + x);
  // In two parts, the second of which is the larger one.
  const int64_t rows = views * view_rows, first = rows / 3;
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, first}, {first, rows}})
    if (end > begin)
      cut_patches({.pixels = pixels.view(),
                   .side = side,
                   .patch = patch,
                   .lead = lead,
                   .first = begin,
                   .output = out.view().slice_rows(begin, end - begin)},
                  queue);
  REQUIRE(queue.finish().ok());
  CHECK(out.intact());
  CHECK(out.untouched_count() == 0);
  for (int64_t view = 0; view < views; ++view) {
    for (int64_t row = view * view_rows; row < view * view_rows + lead; ++row)
      for (int64_t col = 0; col < width; ++col) REQUIRE(out.get(row, col) == 0);
    for (int64_t y = 0; y < grid * patch; ++y) {
      for (int64_t x = 0; x < grid * patch; ++x) {
        for (int64_t c = 0; c < 3; ++c) {
          const int64_t row = view * view_rows + lead + y / patch * grid + x / patch;
          const int64_t col = (c * patch + y % patch) * patch + x % patch;
          REQUIRE(out.get(row, col) == pixels.at((view * 3 + c) * side + y, x));
        }
      }
    }
  }
}

TEST_CASE("cut_patches puts every pixel where the formula says, dropping the remainder") {
  test::for_each_backend([&](Queue& queue) {
    for (const auto& [side, patch] : {std::pair<int32_t, int32_t>{4, 4}, {12, 3}, {33, 8}, {256, 16}, {384, 14}})
      for (const int64_t gap : {0, 4, 5}) check_cut(side, patch, 1, gap, queue);
    check_cut(33, 5, 3, 2, queue);
    check_cut(64, 16, 4, 0, queue);
    check_cut(56, 14, 2, 0, queue);
    for (const int32_t lead : {1, 4}) {
      check_cut(7, 7, 1, 1, queue, lead);
      check_cut(30, 7, 3, 2, queue, lead);
      check_cut(56, 14, 2, 0, queue, lead);
      check_cut(64, 16, 2, 4, queue, lead);
    }
  });
}

void check_shuffle(int32_t grid, int32_t scale, int64_t width, int64_t views, int64_t gap, Queue& queue,
                   int32_t lead = 0) {
  CAPTURE(grid);
  CAPTURE(scale);
  CAPTURE(width);
  CAPTURE(gap);
  CAPTURE(lead);
  const int64_t small = grid / scale, wide = scale * scale * width, view_rows = lead + grid * grid;
  Guarded<float> input(views * view_rows, width, width + gap);
  test::Activations out(queue, views * small * small, wide, wide + gap);
  for (int64_t cell = 0; cell < views * view_rows; ++cell)
    for (int64_t c = 0; c < width; ++c) input.at(cell, c) = number_at(cell * width + c);
  shuffle_pixels(
      {.input = input.view(), .views = views, .grid = grid, .scale = scale, .lead = lead, .output = out.view()}, queue);
  REQUIRE(queue.finish().ok());
  CHECK(out.intact());
  CHECK(out.untouched_count() == 0);
  for (int64_t view = 0; view < views; ++view) {
    for (int64_t y = 0; y < grid; ++y) {
      for (int64_t x = 0; x < grid; ++x) {
        for (int64_t c = 0; c < width; ++c) {
          const int64_t row = (view * small + y / scale) * small + x / scale;
          const int64_t col = (y % scale * scale + x % scale) * width + c;
          REQUIRE(out.get(row, col) == input.at(view * view_rows + lead + y * grid + x, c));
        }
      }
    }
  }
}

TEST_CASE("shuffle_pixels joins neighbouring rows in the order of the formula") {
  test::for_each_backend([&](Queue& queue) {
    for (const int64_t gap : {0, 3, 8}) {
      for (const auto& [grid, scale, width] :
           {std::tuple<int32_t, int32_t, int64_t>{2, 2, 1}, {6, 3, 5}, {4, 1, 8}, {16, 4, 384}, {27, 3, 100}})
        check_shuffle(grid, scale, width, 1, gap, queue);
      check_shuffle(8, 2, 24, 3, gap, queue);
      check_shuffle(4, 2, 4400, 2, gap, queue);
      check_shuffle(4, 2, 64, 3, gap, queue, 1);
      check_shuffle(5, 1, 72, 3, gap, queue, 1);  // nothing is joined
      check_shuffle(24, 1, 1024, 2, gap, queue, 1);
      check_shuffle(6, 3, 5, 2, gap, queue, 4);
    }
  });
}

TEST_CASE("shuffle_pixels writes f32 rows on every backend, for what reads no other") {
  test::for_each_backend([](Queue& queue) {
    Guarded<float> input(5, 16), out(1, 64);
    for (int64_t row = 0; row < 5; ++row)
      for (int64_t col = 0; col < 16; ++col) input.at(row, col) = 1.0f / static_cast<float>(row * 16 + col + 1);
    shuffle_pixels({.input = input.view(), .grid = 2, .scale = 2, .lead = 1, .output = out.view()}, queue);
    REQUIRE(queue.finish().ok());
    CHECK(out.intact());
    for (int64_t i = 0; i < 64; ++i) CHECK(out.at(0, i) == input.at(1 + i / 16, i % 16));
  });
}

}  // namespace
}  // namespace ocellus
