#include "mm/views/image_prompt.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace ocellus;

namespace {

std::vector<std::string> pieces(int width, int height, int32_t longest_edge) {
  PreprocessConfig config;
  config.image_size = 256;
  config.longest_edge = longest_edge;
  ViewPlan plan;
  REQUIRE(plan_views(config, width, height, &plan).ok());
  std::vector<std::string> result;
  for (int32_t i = 0; i < image_piece_count(plan); ++i) {
    const ImagePiece piece = image_piece(plan, i);
    result.push_back(piece.is_view() ? '#' + std::to_string(piece.view_index) : piece.text);
  }
  return result;
}

}  // namespace

TEST_CASE("without tiles the overview stands alone") {
  CHECK(pieces(300, 200, 0) ==
        std::vector<std::string>{"\n\n<fake_token_around_image><global-img>", "#0", "<fake_token_around_image>"});
}

TEST_CASE("tiles come row by row, the overview last") {
  const std::string fake = "<fake_token_around_image>";
  CHECK(pieces(500, 400, 512) == std::vector<std::string>{fake + "<row_1_col_1>", "#0", fake + "<row_1_col_2>", "#1",
                                                          "\n", fake + "<row_2_col_1>", "#2", fake + "<row_2_col_2>",
                                                          "#3", "\n\n" + fake + "<global-img>", "#4", fake});
}

TEST_CASE("one row of tiles has no line break") {
  const auto list = pieces(1000, 300, 768);
  CHECK(list.size() == 9);
  CHECK(std::find(list.begin(), list.end(), "\n") == list.end());
}

TEST_CASE("the longest tile name fits") {
  PreprocessConfig config;
  config.image_size = 16;
  config.longest_edge = 256;
  ViewPlan plan;
  REQUIRE(plan_views(config, 99, 99, &plan).ok());
  CHECK(plan.view_count == 257);
  const ImagePiece last = image_piece(plan, image_piece_count(plan) - 5);
  CHECK(std::string(last.text) == "<fake_token_around_image><row_16_col_16>");
}

TEST_CASE("nothing stands around a LLaVA picture") {
  PreprocessConfig config;
  config.image_size = 336;
  config.flavour = ResizeFlavour::kLlava;
  ViewPlan plan;
  REQUIRE(plan_views(config, 640, 480, &plan).ok());
  REQUIRE(image_piece_count(plan) == 1);
  CHECK(image_piece(plan, 0).view_index == 0);
}
