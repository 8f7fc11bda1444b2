#include "kernels/patches.h"

#include <doctest/doctest.h>

#include "tests/support/guard.h"
#include "tests/support/test_queue.h"

namespace ocellus {
namespace {

using test::Guarded;

TEST_CASE("cut_patches puts every pixel where the formula says, dropping the remainder") {
  for (const int threads : {1, 3}) {
    test::TestQueue queue(threads);
    for (const auto& [side, patch] : {std::pair<int32_t, int32_t>{4, 4}, {12, 3}, {33, 8}, {256, 16}, {384, 14}}) {
      const int64_t grid = side / patch;
      Guarded<float> pixels(3 * side, side, side + 5), out(grid * grid, 3 * patch * patch, 3 * patch * patch + 4);
      for (int64_t y = 0; y < 3 * side; ++y)
        for (int64_t x = 0; x < side; ++x) pixels.at(y, x) = static_cast<float>(y * side + x);
      cut_patches({.pixels = pixels.view(), .side = side, .patch = patch, .output = out.view()}, *queue);
      CHECK(out.intact());
      for (int64_t y = 0; y < grid * patch; ++y) {
        for (int64_t x = 0; x < grid * patch; ++x) {
          for (int64_t c = 0; c < 3; ++c) {
            const int64_t row = y / patch * grid + x / patch;
            const int64_t col = (c * patch + y % patch) * patch + x % patch;
            REQUIRE(out.at(row, col) == pixels.at(c * side + y, x));
          }
        }
      }
    }
  }
}

TEST_CASE("shuffle_pixels joins neighbouring rows in the order of the formula") {
  for (const int threads : {1, 3}) {
    test::TestQueue queue(threads);
    for (const auto& [grid, scale, width] :
         {std::tuple<int32_t, int32_t, int64_t>{2, 2, 1}, {6, 3, 5}, {4, 1, 8}, {16, 4, 384}, {27, 3, 100}}) {
      const int64_t small = grid / scale;
      Guarded<float> input(grid * grid, width, width + 3), out(small * small, scale * scale * width);
      for (int64_t cell = 0; cell < grid * grid; ++cell)
        for (int64_t c = 0; c < width; ++c) input.at(cell, c) = static_cast<float>(cell * width + c);
      shuffle_pixels({.input = input.view(), .grid = grid, .scale = scale, .output = out.view()}, *queue);
      CHECK(out.intact());
      for (int64_t y = 0; y < grid; ++y) {
        for (int64_t x = 0; x < grid; ++x) {
          for (int64_t c = 0; c < width; ++c) {
            const int64_t col = (y % scale * scale + x % scale) * width + c;
            REQUIRE(out.at(y / scale * small + x / scale, col) == input.at(y * grid + x, c));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace ocellus
