#include "mm/views/preprocess.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "mm/pictures/image_decode.h"
#include "mm/views/view_maker.h"
#include "runtime/models/family.h"
#include "tests/support/exif.h"
#include "tests/support/rendered_views.h"

using namespace ocellus;
using namespace ocellus::testing;

namespace {

PreprocessConfig make_config(int32_t image_size, int32_t longest_edge, const Family& family = find_family("SmolVLM")) {
  PreprocessConfig config;
  config.rules = family.vision.views;
  config.image_size = image_size;
  config.longest_edge = longest_edge;
  for (int c = 0; c < 3; ++c) {
    config.mean[c] = 0;
    config.std[c] = 1;
  }
  return config;
}

}  // namespace

TEST_CASE("views equal those of Hugging Face's processor to the bit") {
  std::ifstream file(std::string(OCELLUS_SOURCE_DIR) + "/tests/data/images/goldens.json");
  const nlohmann::json entries = nlohmann::json::parse(file)["views"];
  CHECK(entries.size() >= 10);
  for (const auto& entry : entries) {
    CAPTURE(entry.dump());
    const auto config = make_config(entry["image_size"], entry["longest_edge"]);
    const int width = entry["source"][0], height = entry["source"][1];
    const auto pixels = synthetic_pixels(width, height);
    const ViewPlan plan = plan_of(config, width, height);
    const auto views = render_views(config, view_of(pixels, width, height));
    CHECK(plan.tile_rows == entry["tile_rows"].get<int>());
    CHECK(plan.tile_cols == entry["tile_cols"].get<int>());
    REQUIRE(views.size() == entry["views"].size());
    CHECK(plan.view_count() <= max_view_count(config));
    for (size_t i = 0; i < views.size(); ++i) {
      CAPTURE(i);
      const auto bytes = pixels_of(views[i], config);
      CHECK(fnv(bytes.data(), std::ssize(bytes)) == std::stoull(entry["views"][i].get<std::string>(), nullptr, 16));
    }
  }
}

TEST_CASE("pixels are normalised by channel and laid out in planes") {
  auto config = make_config(4, 0);
  for (int c = 0; c < 3; ++c) {
    config.mean[c] = 0.25f * static_cast<float>(c + 1);
    config.std[c] = 0.5f + 0.1f * static_cast<float>(c);
  }
  const auto pixels = synthetic_pixels(4, 4);
  const auto views = render_views(config, view_of(pixels, 4, 4));
  REQUIRE(views.size() == 1);
  for (size_t i = 0; i < 16; ++i) {
    for (size_t c = 0; c < 3; ++c) {
      const double expected = (pixels[3 * i + c] / 255.0 - config.mean[c]) / config.std[c];
      CHECK(views[0][16 * c + i] == doctest::Approx(expected).epsilon(1e-5));
    }
  }
}

TEST_CASE("no size breaks the plan: grids stay bounded and inside what was promised") {
  std::mt19937 random(11);
  for (int round = 0; round < 20000; ++round) {
    const int size = static_cast<int>(random() % 600) + 1;
    const int longest = random() % 5 == 0 ? 0 : static_cast<int>(random() % static_cast<unsigned>(16 * size)) + 1;
    const auto config = make_config(size, longest);
    const int width = random() % 4 == 0 ? 1 : static_cast<int>(random() % 65535) + 1;
    const int height = random() % 4 == 0 ? 1 : static_cast<int>(random() % 65535) + 1;
    ViewPlan plan;
    CAPTURE(size);
    CAPTURE(longest);
    CAPTURE(width);
    CAPTURE(height);
    REQUIRE(plan_views(config, width, height, &plan).ok());
    REQUIRE(plan.view_count() <= max_view_count(config));
    REQUIRE(plan.tile_rows <= kMaxTilesPerSide);
    REQUIRE(plan.tile_cols <= kMaxTilesPerSide);
    const Size grid = {plan.tile_cols * size, plan.tile_rows * size};
    REQUIRE(plan.tiles.size == grid);
    for (const Canvas& canvas : {plan.tiles, plan.overview}) {
      for (int i = 0; i < canvas.resize_count; ++i)
        REQUIRE((canvas.resizes[i].to.width >= 1 && canvas.resizes[i].to.height >= 1));
      if (canvas.resize_count > 0) REQUIRE(canvas.inner() == canvas.size);
    }
  }
}

TEST_CASE("the planned scratch suffices for every shape, thin ones too") {
  std::mt19937 random(5);
  for (int round = 0; round < 120; ++round) {
    const int size = static_cast<int>(random() % 40) + 1;
    const auto config =
        make_config(size, random() % 4 == 0 ? 0 : static_cast<int>(random() % static_cast<unsigned>(6 * size)) + 1);
    const int longer = static_cast<int>(random() % 900) + 1;
    const int shorter = std::max(1, longer / (static_cast<int>(random() % 200) + 1));
    const int width = random() % 2 == 0 ? longer : shorter, height = width == longer ? shorter : longer;
    CAPTURE(width);
    CAPTURE(height);
    CAPTURE(size);
    CAPTURE(config.longest_edge);
    const auto pixels = synthetic_pixels(width, height);
    for (const auto& view : render_views(config, view_of(pixels, width, height))) {
      for (const float value : view) REQUIRE((value >= 0.0f && value <= 1.0f));
    }
  }
}

TEST_CASE("scratch for 4096-capped Hugging Face sizes suffices") {
  const auto config = make_config(512, 8000);
  for (const auto& [width, height] : {std::pair{3000, 16}, std::pair{16, 3000}, std::pair{600, 3}, std::pair{1, 190}}) {
    CAPTURE(width);
    CAPTURE(height);
    const auto pixels = synthetic_pixels(width, height);
    const ViewPlan plan = plan_of(config, width, height);
    const Size step = plan.tiles.resizes[0].to;
    CHECK(std::max(step.width, step.height) == 4096);
    render_views(config, view_of(pixels, width, height));
  }
}

TEST_CASE("a line of pixels becomes a column of tiles, whatever its length times one over its length is") {
  // 196 * (1.0 / 196) is less than 1.
  for (int32_t longest = 28; longest <= 400; ++longest)
    for (const auto& [width, height] : {std::pair{1, longest}, {longest, 1}, {1, 2 * longest}}) {
      CAPTURE(longest);
      CAPTURE(width);
      CAPTURE(height);
      const ViewPlan plan = plan_of(make_config(28, longest), width, height);
      for (const Size& size : {plan.tiles.resizes[0].to, plan.tiles.resizes[1].to})
        CHECK((plan.tile_count() == 0 || std::min(size.width, size.height) > 0));
    }
}

TEST_CASE("preparing with a byte less than it takes is refused") {
  const auto config = make_config(32, 96);
  const auto pixels = synthetic_pixels(100, 70);
  const ViewPlan plan = plan_of(config, 100, 70);
  PreparedViews prepared;
  GuardedScratch scratch(3 * 96 * 96 - 1);
  CHECK(prepare_views(config, plan, view_of(pixels, 100, 70), scratch.extent(), &prepared).code() == Code::kFull);
  CHECK(scratch.intact());
  GuardedScratch enough(ViewMaker::scratch_bytes(config, {}));
  CHECK(prepare_views(config, plan, view_of(pixels, 100, 60), enough.extent(), &prepared).code() == Code::kInternal);
}

TEST_CASE("a view outside the plan or a wrong target is refused") {
  const auto config = make_config(8, 16);  // four tiles and an overview
  const auto pixels = synthetic_pixels(16, 16);
  const ViewPlan plan = plan_of(config, 16, 16);
  PreparedViews prepared;
  GuardedScratch scratch(ViewMaker::scratch_bytes(config, {}));
  REQUIRE(prepare_views(config, plan, view_of(pixels, 16, 16), scratch.extent(), &prepared).ok());
  float view[192];
  CHECK(render_view(config, prepared, 4, DeviceView<float>(view, 24, 8)).ok());
  CHECK(render_view(config, prepared, 5, DeviceView<float>(view, 24, 8)).code() == Code::kInternal);
  CHECK(render_view(config, prepared, -1, DeviceView<float>(view, 24, 8)).code() == Code::kInternal);
  CHECK(render_view(config, prepared, 0, DeviceView<float>(view, 8, 24)).code() == Code::kInternal);
}

TEST_CASE("hostile configurations are refused with a sentence") {
  const auto code = [](const PreprocessConfig& config) { return check_preprocess(config).code(); };
  CHECK(code(make_config(256, 512)) == Code::kOk);
  CHECK(code(make_config(0, 512)) == Code::kUnsupported);
  CHECK(code(make_config(-4, 512)) == Code::kUnsupported);
  CHECK(code(make_config(5000, 0)) == Code::kUnsupported);
  CHECK(code(make_config(16, 2048)) == Code::kUnsupported);
  CHECK(code(make_config(16, std::numeric_limits<int32_t>::max())) == Code::kUnsupported);
  CHECK(code(make_config(16, -1)) == Code::kUnsupported);
  auto config = make_config(16, 32);
  config.std[1] = 0;
  CHECK(code(config) == Code::kUnsupported);
  config.std[1] = std::numeric_limits<float>::quiet_NaN();
  CHECK(code(config) == Code::kUnsupported);
  config.std[1] = 1;
  config.mean[2] = std::numeric_limits<float>::infinity();
  CHECK(code(config) == Code::kUnsupported);
}

TEST_CASE("a bound on tiles makes the tiled image smaller, a tile a side at a time") {
  auto config = make_config(256, 1024);
  CHECK(max_view_count(config) == 17);
  for (const auto& [most, width, height, rows, cols] : {std::tuple{16, 1000, 900, 4, 4},
                                                        {15, 1000, 900, 3, 3},
                                                        {5, 1000, 900, 2, 2},
                                                        {5, 1000, 200, 1, 4},
                                                        {3, 200, 1000, 3, 1},
                                                        {3, 1000, 900, 0, 0},
                                                        {1, 1000, 900, 0, 0}}) {
    CAPTURE(most);
    config.max_tiles = most;
    CHECK(max_view_count(config) == (most == 1 ? 1 : most + 1));
    const ViewPlan plan = plan_of(config, width, height);
    CHECK(plan.tile_rows == rows);
    CHECK(plan.tile_cols == cols);
    const auto pixels = synthetic_pixels(width, height);
    render_views(config, view_of(pixels, width, height));
  }
}

TEST_CASE("one region serves decoding and the views") {
  const auto config = make_config(64, 256);
  ImageLimits limits;
  limits.max_pixels = 45 * 37;
  limits.max_side = 64;
  GuardedScratch scratch(image_scratch_bytes(config, limits));
  const int64_t views_bytes = aligned_bytes(ViewMaker::scratch_bytes(config, limits));
  const auto file = read_picture_file("progressive_444.jpg");
  const auto size = static_cast<int64_t>(file.size());
  ImageFacts facts;
  REQUIRE(probe_image(file.data(), size, limits, &facts).ok());
  ViewPlan plan;
  REQUIRE(plan_views(config, facts.width, facts.height, &plan).ok());
  ViewMaker maker;
  REQUIRE(maker.begin(config, plan, {}, {scratch.extent().data, views_bytes}).ok());
  ImageDecoder decoder;
  REQUIRE(decoder.open().ok());
  const Extent rest = {scratch.extent().data + views_bytes, scratch.extent().bytes - views_bytes};
  REQUIRE(decoder.decode_rows(file.data(), size, limits, rest, maker).ok());
  PreparedViews prepared;
  REQUIRE(maker.finish(&prepared).ok());
  std::vector<float> view(3 * 64 * 64);
  for (int i = 0; i < plan.view_count(); ++i)
    CHECK(render_view(config, prepared, i, DeviceView<float>(view.data(), 192, 64)).ok());
  CHECK(scratch.intact());
}

TEST_CASE("a picture whose rows are turned while they come gives the views of one that was turned before, to the bit") {
  for (const auto& [family, size, longest] : {std::tuple{&find_family("SmolVLM"), 24, 0},
                                              {&find_family("SmolVLM"), 24, 72},
                                              {&find_family("LLaVA-1.5"), 24, 0}}) {
    const auto config = make_config(size, longest, *family);
    for (const auto& [width, height] : {std::pair{97, 61}, {61, 97}, {13, 11}, {72, 48}, {24, 24}, {150, 3}, {1, 40}}) {
      const auto stored = synthetic_pixels(width, height);
      for (int number = 1; number <= 8; ++number) {
        CAPTURE(size);
        CAPTURE(longest);
        CAPTURE(width);
        CAPTURE(height);
        CAPTURE(number);
        const Bytes tiff = exif(number);
        const Orientation orientation = read_exif_orientation(tiff.data(), static_cast<int64_t>(tiff.size()));
        const int seen_width = number >= 5 ? height : width, seen_height = number >= 5 ? width : height;
        const auto seen = turned(stored, width, height, number);
        const auto expected = render_views(config, view_of(seen, seen_width, seen_height));
        CHECK(render_views(config, view_of(stored, width, height), orientation) == expected);
      }
    }
  }
}

TEST_CASE("a picture that lacks rows makes no views") {
  const auto config = make_config(8, 0);
  const auto pixels = synthetic_pixels(16, 16);
  const ViewPlan plan = plan_of(config, 16, 16);
  GuardedScratch scratch(ViewMaker::scratch_bytes(config, {}));
  ViewMaker maker;
  REQUIRE(maker.begin(config, plan, {}, scratch.extent()).ok());
  feed_rows(view_of(pixels, 16, 15), maker);
  PreparedViews prepared;
  CHECK(maker.finish(&prepared).code() == Code::kInternal);
}
