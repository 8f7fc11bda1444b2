#include "mm/pictures/resize.h"

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/resizes.h"

using namespace ocellus;
using namespace ocellus::testing;

namespace {

nlohmann::json goldens() {
  std::ifstream file(std::string(OCELLUS_SOURCE_DIR) + "/tests/data/images/goldens.json");
  return nlohmann::json::parse(file);
}

Filter filter_named(const std::string& name) {
  return name == "bilinear" ? Filter::kBilinear : name == "bicubic" ? Filter::kBicubic : Filter::kLanczos;
}

}  // namespace

TEST_CASE("Pillow's resize is reproduced to the bit") {
  const nlohmann::json entries = goldens()["resizes"];
  REQUIRE(entries.size() >= 30);
  for (const auto& entry : entries) {
    const Size source = {entry["source"][0], entry["source"][1]}, target = {entry["target"][0], entry["target"][1]};
    CAPTURE(entry.dump());
    const auto pixels = synthetic_pixels(source.width, source.height);
    const auto resized =
        pillow_resized(view_of(pixels, source.width, source.height), target, filter_named(entry["filter"]));
    const std::vector<int> first = entry["first"];
    for (size_t i = 0; i < first.size(); ++i) CHECK(int{resized[i]} == first[i]);
    CHECK(fnv(resized.data(), static_cast<int64_t>(resized.size())) ==
          std::stoull(entry["hash"].get<std::string>(), nullptr, 16));
  }
}

TEST_CASE("resizes chain without a picture between them") {
  const auto pixels = synthetic_pixels(53, 47);
  const RgbImage image = view_of(pixels, 53, 47);
  const auto half = pillow_resized(image, {31, 29}, Filter::kLanczos);
  const auto whole = pillow_resized(view_of(half, 31, 29), {64, 16}, Filter::kBicubic);
  GuardedScratch first_scratch(PillowResize::scratch_bytes({53, 47}, {31, 29}, {}, Filter::kLanczos));
  GuardedScratch second_scratch(PillowResize::scratch_bytes({31, 29}, {64, 16}, {}, Filter::kBicubic));
  RowKeeper rows(192);
  PillowResize first, second;
  REQUIRE(first.begin({53, 47}, {31, 29}, {}, Filter::kLanczos, second, first_scratch.extent()).ok());
  REQUIRE(second.begin({31, 29}, {64, 16}, {}, Filter::kBicubic, rows, second_scratch.extent()).ok());
  feed_rows(image, first);
  CHECK(rows.bytes == whole);
}

TEST_CASE("a resize without enough scratch or with empty sides is refused") {
  RowKeeper rows(0);
  const Size source = {20, 10}, target = {7, 7};
  GuardedScratch scratch(PillowResize::scratch_bytes(source, target, {}, Filter::kLanczos) - 1);
  PillowResize resize;
  CHECK(resize.begin(source, target, {}, Filter::kLanczos, rows, scratch.extent()).code() == Code::kFull);
  CHECK(resize.begin(source, {0, 7}, {}, Filter::kLanczos, rows, scratch.extent()).code() == Code::kBadArgument);
  CHECK(resize.begin({20, 0}, target, {}, Filter::kLanczos, rows, scratch.extent()).code() == Code::kBadArgument);
}
