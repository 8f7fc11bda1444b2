// Pictures that EXIF turns.
#include "mm/pictures/orientation.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "mm/pictures/image_decode.h"
#include "mm/views/image_hash.h"
#include "runtime/models/family.h"
#include "tests/support/exif.h"
#include "tests/support/pictures.h"
#include "tests/support/random.h"
#include "tests/support/whole_pictures.h"

using namespace ocellus;
using namespace ocellus::testing;

namespace {

/// A picture and the scratch it lies in.
struct Decoded {
  std::unique_ptr<GuardedScratch> scratch;
  RgbImage image;
};

Decoded decode(const Bytes& file) {
  const auto size = static_cast<int64_t>(file.size());
  ImageFacts facts;
  REQUIRE(probe_image(file.data(), size, {}, &facts).ok());
  Decoded out{std::make_unique<GuardedScratch>(facts.scratch_bytes), {}};
  REQUIRE(decode_image(file.data(), size, {}, out.scratch->extent(), &out.image).ok());
  CHECK(out.scratch->intact());
  CHECK(out.image.width == facts.width);
  CHECK(out.image.height == facts.height);
  return out;
}

Bytes pixels_of(const RgbImage& image) { return {image.pixels, image.pixels + image.stride_bytes * image.height}; }

}  // namespace

TEST_CASE("every orientation of a PNG gives the pixels of the picture turned beforehand") {
  constexpr int kWidth = 37, kHeight = 23;
  const Bytes stored = synthetic_pixels(kWidth, kHeight);
  for (int orientation = 1; orientation <= 8; ++orientation) {
    for (const bool little : {false, true}) {
      CAPTURE(orientation);
      const Decoded decoded = decode(rgb_png(stored, kWidth, kHeight, exif(orientation, little)));
      CHECK(decoded.image.width == (orientation >= 5 ? kHeight : kWidth));
      CHECK(decoded.image.height == (orientation >= 5 ? kWidth : kHeight));
      CHECK(pixels_of(decoded.image) == turned(stored, kWidth, kHeight, orientation));
    }
  }
}

TEST_CASE("every orientation of a JPEG and of an interlaced PNG gives their pixels turned") {
  for (const char* name : {"baseline_420.jpg", "progressive_444.jpg", "cmyk.jpg", "gray.jpg", "rgb_interlaced.png"}) {
    CAPTURE(name);
    const Bytes file = read_picture_file(name);
    const Decoded upright = decode(file);
    const int width = upright.image.width, height = upright.image.height;
    for (int orientation = 1; orientation <= 8; ++orientation) {
      CAPTURE(orientation);
      Bytes marked = file;
      if (file[0] == 0xFF) {
        marked = with_exif(file, exif(orientation, orientation % 2 == 0));
      } else {
        const Bytes chunk = png_chunk("eXIf", exif(orientation));
        marked.insert(marked.begin() + 33, chunk.begin(), chunk.end());  // after the header
      }
      const Decoded decoded = decode(marked);
      CHECK(pixels_of(decoded.image) == turned(pixels_of(upright.image), width, height, orientation));
    }
  }
}

TEST_CASE("EXIF that is damaged or says nothing of use turns nothing") {
  const Orientation upright;
  CHECK(read_exif_orientation(nullptr, 0) == upright);
  const Bytes sound = exif(6);
  CHECK_FALSE(read_exif_orientation(sound.data(), static_cast<int64_t>(sound.size())) == upright);
  for (const int value : {0, 9, 255, 65535}) {
    const Bytes other = exif(value);
    CHECK(read_exif_orientation(other.data(), static_cast<int64_t>(other.size())) == upright);
  }
  for (size_t length = 0; length < 8 + 2 + 2 * 12; ++length) {  // cut before the tag ends, in a block of just that size
    const std::unique_ptr<uint8_t[]> cut(new uint8_t[length]);
    std::copy_n(sound.begin(), length, cut.get());
    CHECK(read_exif_orientation(cut.get(), static_cast<int64_t>(length)) == upright);
  }
  for (const uint32_t offset : {0u, 7u, 49u, 50u, 0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFFu}) {
    for (const bool little : {false, true}) {
      Bytes hostile = exif(6, little);
      for (size_t i = 0; i < 4; ++i) hostile[4 + i] = static_cast<uint8_t>(offset >> 8 * (little ? i : 3 - i));
      CHECK(read_exif_orientation(hostile.data(), static_cast<int64_t>(hostile.size())) == upright);
    }
  }
  test::Random random(5);
  for (int round = 0; round < 20000; ++round) {
    Bytes noise = exif(1 + round % 8, round % 2 == 0);
    for (int i = 0; i <= round % 5; ++i)
      noise[static_cast<size_t>(random.integer(0, static_cast<int64_t>(noise.size()) - 1))] =
          static_cast<uint8_t>(random.bits());
    const std::unique_ptr<uint8_t[]> exact(new uint8_t[noise.size()]);
    std::copy(noise.begin(), noise.end(), exact.get());
    (void)read_exif_orientation(exact.get(), static_cast<int64_t>(noise.size()));
  }
  const Bytes file = read_picture_file("baseline_420.jpg");
  CHECK(pixels_of(decode(with_exif(file, {'M', 'M', 0, 42})).image) == pixels_of(decode(file).image));
}

TEST_CASE("pictures that are turned differently have identities of their own, whatever is decoded when") {
  constexpr int kWidth = 37, kHeight = 23;
  const Bytes stored = synthetic_pixels(kWidth, kHeight);
  PreprocessConfig config;
  config.rules = find_family("SmolVLM").vision.views;
  config.image_size = 64;
  std::vector<ImageHash> hashes;
  ImageDecoder decoder;
  REQUIRE(decoder.open().ok());
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const Bytes file = rgb_png(stored, kWidth, kHeight, exif(orientation));
    const auto size = static_cast<int64_t>(file.size());
    ImageFacts facts;
    REQUIRE(probe_image(file.data(), size, {}, &facts).ok());
    ImageHasher hasher(config, facts.width, facts.height, facts.orientation);
    GuardedScratch scratch(facts.rows_scratch_bytes);
    REQUIRE(decoder.decode_rows(file.data(), size, {}, scratch.extent(), hasher).ok());
    hashes.push_back(hasher.finish());
  }
  CHECK(hashes[0] == hash_image(view_of(stored, kWidth, kHeight), config));
  for (size_t i = 0; i < hashes.size(); ++i)
    for (size_t j = 0; j < i; ++j) CHECK_FALSE(hashes[i] == hashes[j]);
}
