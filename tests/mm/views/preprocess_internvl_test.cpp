#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <tuple>
#include <vector>

#include "runtime/models/family.h"
#include "tests/support/rendered_views.h"
#include "tests/support/resizes.h"

using namespace ocellus;
using namespace ocellus::testing;

namespace {

PreprocessConfig internvl_config(int32_t image_size, int32_t max_tiles, int32_t min_tiles = 1) {
  PreprocessConfig config;
  config.rules = find_family("InternVL").vision.views;
  config.image_size = image_size;
  config.view_rows = 256;
  config.max_tiles = max_tiles;
  config.min_tiles = min_tiles;
  for (int c = 0; c < 3; ++c) {
    config.mean[c] = 0;
    config.std[c] = 1;
  }
  return config;
}

std::vector<uint8_t> cut(const std::vector<uint8_t>& image, int64_t width, int64_t left, int64_t top, int64_t side) {
  std::vector<uint8_t> tile;
  for (int64_t y = top; y < top + side; ++y) {
    const auto row = image.begin() + 3 * (y * width + left);
    tile.insert(tile.end(), row, row + 3 * side);
  }
  return tile;
}

}  // namespace

TEST_CASE("InternVL cuts a picture into the grid that comes nearest to its shape") {
  // OpenGVLab's dynamic_preprocess for 448 pixels a tile.
  for (const auto& [width, height, most, cols, rows] : {std::tuple{336, 336, 12, 1, 1},
                                                        {448, 448, 12, 1, 1},
                                                        {640, 480, 12, 4, 3},
                                                        {640, 480, 6, 3, 2},
                                                        {640, 480, 4, 1, 1},
                                                        {1280, 720, 12, 4, 2},
                                                        {1920, 1080, 12, 4, 2},
                                                        {3840, 2160, 6, 2, 1},
                                                        {1080, 1920, 12, 2, 4},
                                                        {1080, 1920, 4, 1, 2},
                                                        {300, 200, 12, 3, 2},
                                                        {300, 200, 4, 1, 1},
                                                        {900, 900, 12, 2, 2},
                                                        {2000, 2000, 12, 3, 3},
                                                        {2000, 2000, 6, 2, 2}}) {
    CAPTURE(width);
    CAPTURE(height);
    CAPTURE(most);
    const ViewPlan plan = plan_of(internvl_config(448, most), width, height);
    const bool tiled = cols * rows > 1;
    CHECK(plan.tile_cols == (tiled ? cols : 0));
    CHECK(plan.tile_rows == (tiled ? rows : 0));
    CHECK(plan.view_count() == (tiled ? cols * rows + 1 : 1));
    CHECK(plan.row_count() == 256 * plan.view_count());
    CHECK(plan.overview_index() == plan.view_count() - 1);
  }
  CHECK(max_view_count(internvl_config(448, 0)) == 13);
  CHECK(max_row_count(internvl_config(448, 0)) == 13 * 256);
  CHECK(max_view_count(internvl_config(448, 1)) == 1);
}

TEST_CASE("InternVL's tiles and its overview are Pillow's bicubic stretches of the picture") {
  for (const auto& [width, height] : {std::pair{40, 30}, {30, 61}, {16, 16}, {100, 9}, {7, 5}}) {
    CAPTURE(width);
    CAPTURE(height);
    constexpr int32_t kSide = 24;
    const PreprocessConfig config = internvl_config(kSide, 12);
    const auto pixels = synthetic_pixels(width, height);
    const RgbImage image = view_of(pixels, width, height);
    const ViewPlan plan = plan_of(config, width, height);
    const auto views = render_views(config, image);
    CHECK(pixels_of(views.back(), config) == pillow_resized(image, {kSide, kSide}, Filter::kBicubic));
    if (plan.tile_count() == 0) continue;
    const Size grid = {plan.tile_cols * kSide, plan.tile_rows * kSide};
    const auto tiled = pillow_resized(image, grid, Filter::kBicubic);
    for (int32_t tile = 0; tile < plan.tile_count(); ++tile)
      CHECK(pixels_of(views[static_cast<size_t>(tile)], config) ==
            cut(tiled, grid.width, tile % plan.tile_cols * kSide, tile / plan.tile_cols * kSide, kSide));
  }
}

TEST_CASE("InternVL's planned scratch suffices for every shape, and no plan exceeds its bounds") {
  std::mt19937 random(9);
  for (int round = 0; round < 60; ++round) {
    const auto config = internvl_config(static_cast<int>(random() % 30) + 1, static_cast<int>(random() % 16) + 1,
                                        static_cast<int>(random() % 8) + 1);
    const int longer = static_cast<int>(random() % 700) + 1;
    const int shorter = std::max(1, longer / (static_cast<int>(random() % 200) + 1));
    const int width = random() % 2 == 0 ? longer : shorter, height = width == longer ? shorter : longer;
    CAPTURE(width);
    CAPTURE(height);
    CAPTURE(config.image_size);
    CAPTURE(config.max_tiles);
    CAPTURE(config.min_tiles);
    const auto pixels = synthetic_pixels(width, height);
    CHECK(static_cast<int32_t>(render_views(config, view_of(pixels, width, height)).size()) <= max_view_count(config));
  }
}
