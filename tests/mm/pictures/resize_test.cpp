#include "mm/pictures/resize.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/resizes.h"

using namespace ocellus;
using namespace ocellus::testing;

namespace {

nlohmann::json read_goldens(const char* name) {
  std::ifstream file(std::string(OCELLUS_SOURCE_DIR) + "/tests/data/images/" + name);
  return nlohmann::json::parse(file);
}

Filter filter_named(const std::string& name) {
  return name == "bilinear" ? Filter::kBilinear : name == "bicubic" ? Filter::kBicubic : Filter::kLanczos;
}

}  // namespace

TEST_CASE("Pillow's resize is reproduced to the bit") {
  const nlohmann::json entries = read_goldens("goldens.json")["resizes"];
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

namespace {

uint64_t hash_of(const nlohmann::json& maker) { return std::stoull(maker["hash"].get<std::string>(), nullptr, 16); }

uint64_t hash_of(const std::vector<uint8_t>& pixels) { return fnv(pixels.data(), static_cast<int64_t>(pixels.size())); }

int most_difference(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  REQUIRE(a.size() == b.size());
  int most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(int{a[i]} - int{b[i]}));
  return most;
}

}  // namespace

TEST_CASE("where Pillow 13 filters vertically first, resizes are those of Pillow 12, to which torchvision is near") {
  const nlohmann::json orders = read_goldens("orders.json");
  CHECK(orders["versions"]["pillow_12"] == "12.0.0");
  CHECK(orders["versions"]["pillow_13"] == "13.0.0");
  const int distances[] = {27, 21, 46};  // of Pillow 13's results from Pillow 12's, in levels
  REQUIRE(orders["resizes"].size() == std::size(distances));
  for (size_t i = 0; i < std::size(distances); ++i) {
    const nlohmann::json& entry = orders["resizes"][i];
    CAPTURE(entry.dump());
    const Size source = {entry["source"][0], entry["source"][1]}, target = {entry["target"][0], entry["target"][1]};
    const Filter filter = filter_named(entry["filter"]);
    const auto pixels = synthetic_pixels(source.width, source.height);
    const auto ours = pillow_resized(view_of(pixels, source.width, source.height), target, filter);
    CHECK(hash_of(ours) == hash_of(entry["pillow_12"]));

    const Size between = {source.width, target.height};
    const auto lower = pillow_resized(view_of(pixels, source.width, source.height), between, filter);
    const auto vertical_first = pillow_resized(view_of(lower, between.width, between.height), target, filter);
    CHECK(hash_of(vertical_first) == hash_of(entry["pillow_13"]));
    CHECK(most_difference(ours, vertical_first) == distances[i]);

    if (!entry.contains("torchvision")) continue;  // it has no Lanczos
    const std::vector<int> window = entry["torchvision"]["window"], other = entry["pillow_13"]["window"];
    const size_t first =
        3 * (entry["row"].get<size_t>() * static_cast<size_t>(target.width) + entry["first"].get<size_t>());
    int farthest = 0;
    for (size_t k = 0; k < window.size(); ++k) {
      CHECK(std::abs(window[k] - int{ours[first + k]}) <= 2);
      farthest = std::max(farthest, std::abs(window[k] - other[k]));
    }
    CHECK(farthest == distances[i]);
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
