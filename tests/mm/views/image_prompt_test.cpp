#include "mm/views/image_prompt.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/models/family.h"

using namespace ocellus;

namespace {

std::vector<std::string> pieces_of(const ViewPlan& plan) {
  std::vector<std::string> result;
  ImagePiece piece;
  for (ImagePieces pieces(plan); pieces.next(&piece);)
    result.push_back(piece.is_view() ? '#' + std::to_string(piece.view_index) : piece.text);
  return result;
}

std::vector<std::string> pieces(int width, int height, int32_t longest_edge, bool is_plain = false) {
  PreprocessConfig config;
  const VisionFamily& family = find_family("SmolVLM").vision;
  config.rules = is_plain ? family.plain_views : family.views;
  config.image_size = 256;
  config.view_rows = 64;
  config.longest_edge = longest_edge;
  ViewPlan plan;
  REQUIRE(plan_views(config, width, height, &plan).ok());
  return pieces_of(plan);
}

}  // namespace

TEST_CASE("without tiles the overview stands alone, after line breaks in models that were trained here") {
  const std::string fake = "<fake_token_around_image>";
  CHECK(pieces(300, 200, 0) == std::vector<std::string>{fake + "<global-img>", "#0", fake});
  CHECK(pieces(300, 200, 0, true) == std::vector<std::string>{"\n\n" + fake + "<global-img>", "#0", fake});
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
  config.rules = find_family("SmolVLM").vision.views;
  config.image_size = 16;
  config.view_rows = 64;
  config.longest_edge = 256;
  ViewPlan plan;
  REQUIRE(plan_views(config, 99, 99, &plan).ok());
  CHECK(plan.view_count() == 257);
  const auto list = pieces_of(plan);
  CHECK(list[list.size() - 5] == "<fake_token_around_image><row_16_col_16>");
}

TEST_CASE("nothing stands around a LLaVA picture") {
  PreprocessConfig config;
  config.image_size = 336;
  config.view_rows = 64;
  config.rules = find_family("LLaVA-1.5").vision.views;
  ViewPlan plan;
  REQUIRE(plan_views(config, 640, 480, &plan).ok());
  CHECK(pieces_of(plan) == std::vector<std::string>{"#0"});
}
