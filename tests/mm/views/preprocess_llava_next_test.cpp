#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "mm/views/image_prompt.h"
#include "runtime/models/family.h"
#include "tests/support/rendered_views.h"

using namespace ocellus;
using namespace ocellus::testing;

namespace {

/// Views of `side` pixels, of which every line of patches becomes `lines` rows, and LLaVA-1.6's five tiled sizes.
PreprocessConfig next_config(int32_t side, int32_t lines) {
  PreprocessConfig config;
  config.rules = find_family("LLaVA-1.6").vision.views;
  config.image_size = side;
  config.view_rows = lines * lines;
  for (const auto& [cols, rows] : {std::pair{2, 1}, {1, 2}, {2, 2}, {1, 3}, {3, 1}})
    config.tiled_sizes[config.tiled_size_count++] = {cols * side, rows * side};
  for (int c = 0; c < 3; ++c) {
    config.mean[c] = 0;
    config.std[c] = 1;
  }
  return config;
}

}  // namespace

TEST_CASE("LLaVA-1.6 gives a picture the rows of its base view and of the map that remains without padding") {
  for (const auto& [width, height, lines, cols, rows] : {std::tuple{336, 336, 24, 24, 1176},
                                                         {448, 448, 48, 48, 2928},
                                                         {640, 480, 36, 48, 2340},
                                                         {480, 640, 48, 36, 2352},
                                                         {1280, 720, 28, 48, 1948},
                                                         {1920, 1080, 28, 48, 1948},
                                                         {300, 200, 24, 36, 1464},
                                                         {1000, 300, 22, 72, 2182}}) {
    CAPTURE(width);
    CAPTURE(height);
    const ViewPlan plan = plan_of(next_config(336, 24), width, height);
    CHECK(plan.map.lines == lines);
    CHECK(plan.map.cols == cols);
    CHECK(plan.row_count() == rows);
    CHECK(plan.overview_index() == 0);
  }
  CHECK(max_row_count(next_config(336, 24)) == 2928);
  CHECK(max_view_count(next_config(336, 24)) == 5);
}

TEST_CASE("a bound on tiles leaves out the sizes that have more, down to the base view and one row end") {
  PreprocessConfig config = next_config(336, 24);
  for (const auto& [most, tiles, rows] :
       {std::tuple{4, 4, 2928}, {3, 2, 576 + 24 * 25}, {2, 2, 576 + 24 * 25}, {1, 0, 577}}) {
    CAPTURE(most);
    config.max_tiles = most;
    const ViewPlan plan = plan_of(config, 448, 448);
    CHECK(plan.tile_count() == tiles);
    CHECK(plan.row_count() == rows);
    CHECK(plan.row_count() <= max_row_count(config));
    ImagePiece piece;
    int64_t found = 0;
    int32_t views = 0;
    for (ImagePieces pieces(plan); pieces.next(&piece);) {
      REQUIRE(piece.is_view());
      found += piece.rows;
      views += piece.view_count;
    }
    CHECK(found == rows);
    CHECK(views == plan.view_count());
  }
}

TEST_CASE("the rows of LLaVA-1.6's tiles fill their map, every place once, between the line ends") {
  std::mt19937 random(4);
  for (int round = 0; round < 200; ++round) {
    const PreprocessConfig config = next_config(28, static_cast<int>(random() % 4) + 1);
    const int32_t width = static_cast<int32_t>(random() % 300) + 1, height = static_cast<int32_t>(random() % 300) + 1;
    CAPTURE(width);
    CAPTURE(height);
    const ViewPlan plan = plan_of(config, width, height);
    std::vector<int> filled(static_cast<size_t>(plan.map.rows()));
    for (int32_t view = 1; view < plan.view_count(); ++view) {
      const RowPlace place = plan.row_place(view);
      for (int32_t line = 0; line < place.lines && place.cols > 0; ++line) {
        REQUIRE(place.from + line * place.from_stride + place.cols <= config.view_rows);
        for (int32_t col = 0; col < place.cols; ++col) {
          const int64_t at = place.first + line * place.stride + col;
          REQUIRE(at >= 0);
          REQUIRE(at < plan.map.rows());
          ++filled[static_cast<size_t>(at)];
        }
      }
    }
    for (int64_t row = 0; row < plan.map.rows(); ++row)
      REQUIRE(filled[static_cast<size_t>(row)] == (row % (plan.map.cols + 1) < plan.map.cols ? 1 : 0));
  }
}

TEST_CASE("LLaVA-1.6's planned scratch suffices for every shape, and no plan exceeds its bounds") {
  std::mt19937 random(12);
  for (int round = 0; round < 60; ++round) {
    PreprocessConfig config = next_config(static_cast<int>(random() % 30) + 2, 2);
    config.max_tiles = static_cast<int>(random() % 5);
    const int longer = static_cast<int>(random() % 700) + 1;
    const int shorter = std::max(1, longer / (static_cast<int>(random() % 200) + 1));
    const int width = random() % 2 == 0 ? longer : shorter, height = width == longer ? shorter : longer;
    CAPTURE(width);
    CAPTURE(height);
    CAPTURE(config.image_size);
    CAPTURE(config.max_tiles);
    const auto pixels = synthetic_pixels(width, height);
    const ViewPlan plan = plan_of(config, width, height);
    CHECK(std::ssize(render_views(config, view_of(pixels, width, height))) == plan.view_count());
    CHECK(plan.view_count() <= max_view_count(config));
    CHECK(plan.row_count() <= max_row_count(config));
  }
}
