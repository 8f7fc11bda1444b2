#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "runtime/models/family.h"
#include "tests/support/rendered_views.h"

using namespace ocellus;
using namespace ocellus::testing;

namespace {

constexpr float kClipMean[3] = {0.48145466f, 0.4578275f, 0.40821073f};

PreprocessConfig llava_config(int32_t image_size) {
  PreprocessConfig config;
  config.rules = find_family("LLaVA-1.5").vision.views;
  config.image_size = image_size;
  for (int c = 0; c < 3; ++c) {
    config.mean[c] = kClipMean[c];
    config.std[c] = 1;
  }
  return config;
}

/// The view as bytes, RGB by pixel, rendered in scratch of exactly the planned size.
std::vector<uint8_t> rendered_bytes(const PreprocessConfig& config, const RgbImage& image, const ImageLimits& limits) {
  const std::vector<Planes> views = render_views(config, image, limits);
  REQUIRE(views.size() == 1);
  return pixels_of(views[0], config);
}

}  // namespace

TEST_CASE("LLaVA's view is Pillow's bicubic resize of the picture in a square of the mean colour, to the bit") {
  std::ifstream file(std::string(OCELLUS_SOURCE_DIR) + "/tests/data/images/goldens.json");
  const nlohmann::json entries = nlohmann::json::parse(file)["squares"];
  REQUIRE(entries.size() >= 10);
  for (const auto& entry : entries) {
    CAPTURE(entry.dump());
    const int width = entry["source"][0], height = entry["source"][1];
    const auto pixels = synthetic_pixels(width, height);
    const auto bytes =
        rendered_bytes(llava_config(entry["image_size"]), view_of(pixels, width, height), tight_limits(width, height));
    CHECK(fnv(bytes.data(), static_cast<int64_t>(bytes.size())) ==
          std::stoull(entry["hash"].get<std::string>(), nullptr, 16));
  }
}

TEST_CASE("LLaVA's margins are on the shorter side, the odd pixel behind the picture") {
  const std::vector<uint8_t> black(3 * 8 * 5, 0);
  const auto wide = rendered_bytes(llava_config(8), view_of(black, 8, 5), tight_limits(8, 8));
  const auto tall = rendered_bytes(llava_config(8), view_of(black, 5, 8), tight_limits(8, 8));
  for (size_t y = 0; y < 8; ++y)
    for (size_t x = 0; x < 8; ++x)
      for (size_t c = 0; c < 3; ++c) {
        constexpr int kColour[3] = {122, 116, 104};
        CHECK(int{wide[3 * (8 * y + x) + c]} == (y >= 1 && y < 6 ? 0 : kColour[c]));
        CHECK(int{tall[3 * (8 * y + x) + c]} == (x >= 1 && x < 6 ? 0 : kColour[c]));
      }
}

TEST_CASE("every picture gives LLaVA one view, in the scratch that was planned") {
  std::mt19937 random(6);
  CHECK(max_view_count(llava_config(336)) == 1);
  for (int round = 0; round < 60; ++round) {
    const int size = static_cast<int>(random() % 60) + 1;
    const int longer = static_cast<int>(random() % 400) + 1;
    const int shorter = std::max(1, longer / (static_cast<int>(random() % 200) + 1));
    const int width = random() % 2 == 0 ? longer : shorter, height = width == longer ? shorter : longer;
    CAPTURE(width);
    CAPTURE(height);
    CAPTURE(size);
    const std::vector<uint8_t> grey(static_cast<size_t>(3 * width * height), 110);
    ImageLimits limits = tight_limits(width, height);
    if (round % 3 == 0) limits.max_side = 500;
    const auto bytes = rendered_bytes(llava_config(size), view_of(grey, width, height), limits);
    for (size_t i = 0; i < bytes.size(); ++i) CHECK((bytes[i] >= 100 && bytes[i] <= 125));
  }
}

TEST_CASE("a mean out of range gives margins of the nearest colour") {
  auto config = llava_config(2);
  config.mean[0] = -3;
  config.mean[1] = 1e9f;
  config.mean[2] = 0.5f;
  ViewPlan plan;
  REQUIRE(plan_views(config, 2, 1, &plan).ok());
  const std::vector<uint8_t> pixels(6, 9);
  GuardedScratch scratch(ViewMaker::scratch_bytes(config, tight_limits(2, 2)));
  PreparedViews prepared;
  REQUIRE(prepare_views(config, plan, view_of(pixels, 2, 1), scratch.extent(), &prepared).ok());
  float view[12];
  REQUIRE(render_view(config, prepared, 0, DeviceView<float>(view, 6, 2)).ok());
  CHECK(view[2] == doctest::Approx(3.0));
  CHECK(view[10] == doctest::Approx(127 / 255.0 - 0.5));
}

TEST_CASE("a byte of scratch too little for LLaVA's view is refused") {
  const auto config = llava_config(16);
  const std::vector<uint8_t> pixels(3 * 40 * 30, 1);
  ViewPlan plan;
  REQUIRE(plan_views(config, 40, 30, &plan).ok());
  for (const int64_t bytes : {int64_t{0}, int64_t{119}, int64_t{500}}) {
    GuardedScratch scratch(bytes);
    PreparedViews prepared;
    CHECK(prepare_views(config, plan, view_of(pixels, 40, 30), scratch.extent(), &prepared).code() == Code::kFull);
    CHECK(scratch.intact());
  }
}
