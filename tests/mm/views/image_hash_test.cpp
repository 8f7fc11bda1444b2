#include "mm/views/image_hash.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "runtime/models/family.h"
#include "tests/support/pictures.h"
#include "tests/support/whole_pictures.h"

using namespace ocellus;
using namespace ocellus::testing;

TEST_CASE("the hash knows pixels, size and preprocessing, and nothing else") {
  auto pixels = synthetic_pixels(30, 20);
  PreprocessConfig config;
  config.rules = find_family("SmolVLM").vision.views;
  config.image_size = 64;
  const ImageHash hash = hash_image(view_of(pixels, 30, 20), config);
  CHECK(hash == hash_image(view_of(pixels, 30, 20), config));
  CHECK_FALSE(hash == hash_image(view_of(pixels, 20, 30), config));

  std::vector<uint8_t> wide(static_cast<size_t>(100 * 20), 9);
  for (size_t y = 0; y < 20; ++y)
    std::copy_n(pixels.begin() + static_cast<int64_t>(y * 90), 90, wide.begin() + static_cast<int64_t>(y * 100));
  CHECK(hash == hash_image({wide.data(), 30, 20, 100}, config));

  pixels[1799] ^= 1;
  CHECK_FALSE(hash == hash_image(view_of(pixels, 30, 20), config));
  pixels[1799] ^= 1;

  const auto differs = [&](auto change) {
    PreprocessConfig other = config;
    change(other);
    return !(hash == hash_image(view_of(pixels, 30, 20), other));
  };
  CHECK(differs([](PreprocessConfig& c) { c.image_size = 65; }));
  CHECK(differs([](PreprocessConfig& c) { c.longest_edge = 64; }));
  CHECK(differs([](PreprocessConfig& c) { c.rules = find_family("LLaVA-1.5").vision.views; }));
  CHECK(differs([](PreprocessConfig& c) { c.mean[2] = 0.4f; }));
  CHECK(differs([](PreprocessConfig& c) { c.std[0] = 0.4f; }));
  CHECK(differs([](PreprocessConfig& c) { c.max_tiles = 3; }));
  CHECK(differs([](PreprocessConfig& c) { c.tiled_sizes[c.tiled_size_count++] = {128, 64}; }));
}

TEST_CASE("the hash is the same on every machine") {
  const auto pixels = synthetic_pixels(30, 20);
  PreprocessConfig config;
  config.image_size = 64;
  const auto expect = [&](const ViewRules* rules, uint64_t high, uint64_t low) {
    config.rules = rules;
    const ImageHash hash = hash_image(view_of(pixels, 30, 20), config);
    CHECK(hash.high == high);
    CHECK(hash.low == low);
  };
  const VisionFamily& smolvlm = find_family("SmolVLM").vision;
  expect(smolvlm.plain_views, 10463482233592631310u, 2277040298777993737u);
  expect(smolvlm.views, 16368247578123385885u, 13115129065116568073u);
}
