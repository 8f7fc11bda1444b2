// WebP: the pixels that libwebp makes, in the bytes that were stated, or one sentence.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <thread>
#include <tuple>

#include "mm/pictures/image_decode.h"
#include "mm/pictures/webp_decoder.h"
#include "tests/support/exif.h"
#include "tests/support/failure.h"
#include "tests/support/pictures.h"
#include "tests/support/random.h"
#include "tests/support/webp_files.h"
#include "tests/support/whole_pictures.h"

using namespace ocellus;
using namespace ocellus::testing;

extern "C" {
void* ocellus_webp_malloc(size_t bytes);
void* ocellus_webp_calloc(size_t count, size_t bytes);
void ocellus_webp_free(void* block);
}

namespace {

int64_t size_of(const Bytes& file) { return static_cast<int64_t>(file.size()); }

enum class Kind { kFlat, kGradient, kPalette, kPhoto, kNoise };
constexpr Kind kKinds[] = {Kind::kFlat, Kind::kGradient, Kind::kPalette, Kind::kPhoto, Kind::kNoise};

/// RGB8, or RGBA8 with an alpha of the same kind.
Bytes draw(Kind kind, int width, int height, bool has_alpha) {
  test::Random random(7);
  Bytes out;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const int noise = static_cast<int>(random.integer(0, 255));
      for (int c = 0; c < (has_alpha ? 4 : 3); ++c) {
        int value = 200 - 40 * c;
        if (kind == Kind::kGradient) value = (x * (c + 1) + y * (3 - c)) / 3 & 255;
        if (kind == Kind::kPalette) value = 60 * ((x / 7 + y / 5 + c) % 5);
        if (kind == Kind::kPhoto) {
          const double wave = std::sin(x * 0.06 + c) * std::cos(y * 0.04 - c) + std::sin((x + 2 * y) * 0.011);
          const bool is_inside = (x / 40 + y / 30) % 3 == 0;
          value = std::clamp(static_cast<int>(128 + 50 * wave) + (is_inside ? 30 : 0) + (noise >> c & 7), 0, 255);
        }
        if (kind == Kind::kNoise) value = static_cast<int>(random.integer(0, 255));
        out.push_back(static_cast<uint8_t>(value));
      }
    }
  }
  return out;
}

struct Decoded {
  Code code = Code::kOk;
  ImageFacts facts;
  Bytes pixels;
};

/// In scratch of exactly the announced size.
Decoded decode(const Bytes& file, const ImageLimits& limits = {}) {
  Decoded out;
  test::clear_failure();
  out.code = probe_image(file.data(), size_of(file), limits, &out.facts).code();
  if (out.code != Code::kOk) return out;
  GuardedScratch scratch(out.facts.scratch_bytes);
  RgbImage image;
  out.code = decode_image(file.data(), size_of(file), limits, scratch.extent(), &image).code();
  REQUIRE(scratch.intact());
  if (out.code != Code::kOk) return out;
  REQUIRE(image.width == out.facts.width);
  REQUIRE(image.height == out.facts.height);
  out.pixels.assign(image.pixels, image.pixels + image.stride_bytes * image.height);
  return out;
}

bool says(const char* words) { return std::string(last_failure().sentence).find(words) != std::string::npos; }

Bytes body_of(const Bytes& file, const char* type) {
  for (const WebpChunk& chunk : read_webp(file))
    if (chunk.type == type) return chunk.body;
  return {};
}

/// Small files of every kind, on which every byte is tried.
std::vector<Bytes> small_files() {
  std::vector<Bytes> files;
  for (const bool has_alpha : {false, true}) {
    for (const Kind kind : {Kind::kPalette, Kind::kPhoto}) {
      const Bytes pixels = draw(kind, 21, 13, has_alpha);
      files.push_back(encode_webp(pixels, 21, 13, has_alpha, {.lossless = true}));
      files.push_back(encode_webp(pixels, 21, 13, has_alpha, {.quality = 50}));
    }
  }
  files.push_back(lossless_webp(draw(Kind::kPalette, 5, 4, true), 5, 4, true));
  return files;
}

}  // namespace

TEST_CASE("every kind of WebP decodes as libwebp does, in scratch of exactly the announced size") {
  int count = 0;
  for (const auto& [width, height] : {std::pair{1, 1}, {1, 40}, {17, 16}, {33, 65}, {70, 51}}) {
    for (const Kind kind : kKinds) {
      for (const bool has_alpha : {false, true}) {
        const Bytes pixels = draw(kind, width, height, has_alpha);
        for (const WebpRecipe& recipe : {WebpRecipe{.quality = 5, .method = 0},
                                         {.quality = 90, .filter_strength = 0, .partitions = 3, .alpha_compression = 0},
                                         {.quality = 60, .method = 6, .alpha_filtering = 2},
                                         {.lossless = true, .quality = 0, .method = 0},
                                         {.lossless = true},
                                         {.lossless = true, .quality = 100, .method = 6},
                                         {.lossless = true, .near_lossless = 40}}) {
          CAPTURE(width);
          CAPTURE(static_cast<int>(kind));
          CAPTURE(has_alpha);
          CAPTURE(recipe.lossless);
          CAPTURE(recipe.method);
          const Bytes file = encode_webp(pixels, width, height, has_alpha, recipe);
          REQUIRE(!file.empty());
          const Decoded decoded = decode(file);
          INFO(last_failure().sentence);
          REQUIRE(decoded.code == Code::kOk);
          CHECK(decoded.facts.format == ImageFormat::kWebp);
          CHECK(decoded.facts.width == width);
          CHECK(decoded.facts.height == height);
          CHECK(decoded.pixels == decode_by_libwebp(file));
          if (!has_alpha && recipe.lossless && recipe.near_lossless == 100) CHECK(decoded.pixels == pixels);
          GuardedScratch less(decoded.facts.scratch_bytes - 1);
          RgbImage image;
          CHECK(decode_image(file.data(), size_of(file), {}, less.extent(), &image).code() == Code::kFull);
          CHECK(less.intact());
          ++count;
        }
      }
    }
  }
  CHECK(count == 350);
}

TEST_CASE("large pictures decode in the scratch that is planned for pictures of their size") {
  const auto check = [](Kind kind, int width, int height, bool has_alpha, const WebpRecipe& recipe) {
    CAPTURE(width);
    CAPTURE(static_cast<int>(kind));
    CAPTURE(has_alpha);
    CAPTURE(recipe.lossless);
    ImageLimits limits;
    limits.max_pixels = int64_t{width} * height;
    const Bytes file = encode_webp(draw(kind, width, height, has_alpha), width, height, has_alpha, recipe);
    GuardedScratch scratch(decode_scratch_bytes(limits));
    RgbImage image;
    const Status status = decode_image(file.data(), size_of(file), limits, scratch.extent(), &image);
    INFO(last_failure().sentence);
    REQUIRE(status.ok());
    CHECK(scratch.intact());
    const Bytes wanted = decode_by_libwebp(file);
    REQUIRE(size_of(wanted) == image.stride_bytes * image.height);
    CHECK(std::equal(wanted.begin(), wanted.end(), image.pixels));
    CHECK(decode(file, limits).code == Code::kOk);
  };
  for (const auto& [width, height] : {std::pair{256, 256}, {400, 100}}) {
    for (const Kind kind : {Kind::kGradient, Kind::kPalette, Kind::kPhoto, Kind::kNoise}) {
      for (const bool has_alpha : {false, true}) {
        check(kind, width, height, has_alpha, {});
        check(kind, width, height, has_alpha, {.lossless = true, .method = 2});
      }
    }
  }
  check(Kind::kPhoto, 256, 256, true, {.lossless = true});
  check(Kind::kPalette, 256, 256, false, {.lossless = true, .quality = 100, .method = 6});
}

TEST_CASE("alpha of a WebP is composited on white") {
  const Bytes rgba = draw(Kind::kNoise, 16, 16, true);
  const Decoded decoded = decode(lossless_webp(rgba, 16, 16, true));
  REQUIRE(decoded.code == Code::kOk);
  CHECK(decoded.facts.channels == 4);
  bool is_same = true;
  for (size_t i = 0; i < size_t{16} * 16; ++i) {
    for (size_t c = 0; c < 3; ++c)
      is_same = is_same && decoded.pixels[3 * i + c] == blend_on_white(rgba[4 * i + c], rgba[4 * i + 3]);
  }
  CHECK(is_same);
  const Decoded opaque = decode(lossless_webp(rgba, 16, 16, false));  // which then says nothing
  CHECK(opaque.facts.channels == 3);
  CHECK(opaque.pixels[0] == rgba[0]);
}

TEST_CASE("every orientation of a WebP gives its pixels turned, where its header announces EXIF") {
  constexpr int kWidth = 37, kHeight = 23;
  const Bytes pixels = draw(Kind::kPhoto, kWidth, kHeight, false);
  const Bytes profile(19, 1), note = {'<', 'x', '/', '>'};
  for (const bool lossless : {false, true}) {
    const Bytes plain = encode_webp(pixels, kWidth, kHeight, false, {.lossless = lossless});
    const Bytes upright = decode(plain).pixels;
    const Bytes picture = webp_chunk(lossless ? "VP8L" : "VP8 ", body_of(plain, lossless ? "VP8L" : "VP8 "));
    for (int orientation = 1; orientation <= 8; ++orientation) {
      CAPTURE(orientation);
      Bytes tiff = exif(orientation, orientation % 2 == 0);
      if (orientation % 3 == 0) tiff.insert(tiff.begin(), {'E', 'x', 'i', 'f', 0, 0});
      const auto file = [&](int flags) {
        return make_webp({webp_header(flags, kWidth, kHeight), webp_chunk("ICCP", profile), picture,
                          webp_chunk("EXIF", tiff), webp_chunk("XMP ", note)});
      };
      const Decoded turned_picture = decode(file(kWebpExif | kWebpIcc | kWebpXmp));
      REQUIRE(turned_picture.code == Code::kOk);
      CHECK(turned_picture.facts.width == (orientation >= 5 ? kHeight : kWidth));
      CHECK(turned_picture.pixels == turned(upright, kWidth, kHeight, orientation));
      CHECK(decode(file(kWebpIcc)).pixels == upright);
    }
  }
}

TEST_CASE("a WebP that is cut short anywhere is refused, in and behind its container") {
  for (const Bytes& file : small_files()) {
    REQUIRE(decode(file).code == Code::kOk);
    for (int64_t length = 1; length < size_of(file); ++length) {
      const Bytes cut(file.begin(), file.begin() + length);
      CAPTURE(length);
      CHECK(decode(cut).code == Code::kBadImage);
      CHECK(std::string(last_failure().sentence).size() > 20);
    }
    // Containers that are right for what is left.
    std::vector<WebpChunk> chunks = read_webp(file);
    const size_t whole = chunks.back().body.size();
    int refused = 0;
    for (size_t length = 0; length < whole; ++length) {
      std::vector<Bytes> parts;
      for (const WebpChunk& chunk : chunks) {
        const bool is_last = &chunk == &chunks.back();
        parts.push_back(webp_chunk(
            chunk.type, is_last ? Bytes(chunk.body.begin(), chunk.body.begin() + static_cast<std::ptrdiff_t>(length))
                                : chunk.body));
      }
      const Decoded decoded = decode(make_webp(parts));
      REQUIRE((decoded.code == Code::kBadImage || decoded.code == Code::kOk));
      refused += decoded.code == Code::kBadImage;
    }
    CHECK(refused >= static_cast<int>(whole) - 8);  // the last bytes may be without a use
  }
}

TEST_CASE("a WebP with any bit turned decodes or is refused with a sentence") {
  int sound = 0, refused = 0;
  ImageLimits limits;
  limits.max_pixels = 1 << 14;
  for (const Bytes& file : small_files()) {
    for (size_t bit = 0; bit < 8 * file.size(); ++bit) {
      Bytes changed = file;
      changed[bit / 8] = static_cast<uint8_t>(changed[bit / 8] ^ 1 << bit % 8);
      const Code code = decode(changed, limits).code;
      REQUIRE((code == Code::kOk || code == Code::kBadImage || code == Code::kUnsupported || code == Code::kFull));
      (code == Code::kOk ? sound : refused) += 1;
      if (code != Code::kOk) REQUIRE(std::string(last_failure().sentence).size() > 20);
    }
  }
  CHECK(sound > 100);
  CHECK(refused > 100);
}

TEST_CASE("what a WebP's container gets wrong is named") {
  const Bytes rgba = draw(Kind::kPalette, 6, 5, false);
  const Bytes plain = encode_webp(rgba, 6, 5, false, {.lossless = true});
  const Bytes picture = webp_chunk("VP8L", body_of(plain, "VP8L"));
  const auto refuse = [](const std::vector<Bytes>& chunks, Code code, const char* words) {
    CHECK(decode(make_webp(chunks)).code == code);
    INFO(last_failure().sentence);
    CHECK(says(words));
  };
  CHECK(decode(make_webp({webp_header(0, 6, 5), picture})).code == Code::kOk);
  refuse({webp_header(kWebpAnimated, 6, 5), picture}, Code::kUnsupported, "the WebP is animated");
  refuse({webp_header(0, 6, 6), picture}, Code::kBadImage, "says 6 x 6 pixels, its picture has 6 x 5");
  refuse({webp_header(0, 6, 5), webp_chunk("ANMF", rgba)}, Code::kBadImage, "no picture");
  refuse({webp_chunk("EXIF", exif(3)), picture}, Code::kBadImage, "does not start with a picture");
  refuse({webp_chunk("VP8X", {0, 0}), picture}, Code::kBadImage, "2 bytes instead of 10");
  refuse({webp_chunk("VP8L", {0x2F, 0})}, Code::kBadImage, "damaged header");
  refuse({webp_chunk("VP8 ", Bytes(30, 0))}, Code::kBadImage, "damaged header");
  refuse({}, Code::kBadImage, "cut short");
  refuse({webp_header(0, 16384, 16384), picture}, Code::kBadImage, "WebP");
  Bytes version = body_of(plain, "VP8L");
  version[4] |= 0x20;
  refuse({webp_chunk("VP8L", version)}, Code::kBadImage, "damaged header");
  Bytes longer = plain;
  append(longer, {1, 2, 3});
  CHECK(decode(longer).code == Code::kOk);  // bytes after the RIFF are ignored
  Bytes second = plain;
  append(second, webp_chunk("VP8L", {0x2F, 0, 0, 0, 0}));
  second[4] = static_cast<uint8_t>(second.size() - 8);
  CHECK(decode(second).pixels == decode(plain).pixels);  // the first picture counts
  Bytes torn = make_webp({picture, webp_chunk("XMP ", Bytes(9, 0))});
  torn[torn.size() - 14] = 99;  // the length of XMP
  CHECK(decode(torn).code == Code::kBadImage);
}

TEST_CASE("a WebP outside the limits is refused before libwebp sees it") {
  ImageLimits limits;
  limits.max_pixels = 1000;
  const Bytes pixels = draw(Kind::kFlat, 40, 26, false);
  for (const bool lossless : {false, true}) {
    const Bytes file = encode_webp(pixels, 40, 26, false, {.lossless = lossless});
    CHECK(decode(file, limits).code == Code::kBadImage);
    CHECK(says("40 x 26"));
  }
  limits.max_pixels = 1040;
  CHECK(decode(encode_webp(pixels, 40, 26, false, {}), limits).code == Code::kOk);
  limits.max_encoded_bytes = 20;
  CHECK(decode(encode_webp(pixels, 40, 26, false, {}), limits).code == Code::kBadImage);
}

TEST_CASE("a lossless file that asks for tens of megabytes of tables gets a sentence and no memory") {
  const Bytes file = greedy_webp(256, 256);
  CHECK(file.size() < 30'000);
  CHECK(decode(file).code == Code::kFull);
  CHECK(says("ran out of its"));
  ImageFacts facts;
  REQUIRE(probe_image(file.data(), size_of(file), {}, &facts).ok());
  GuardedScratch scratch(facts.scratch_bytes + (int64_t{64} << 20));
  RgbImage image;
  CHECK(decode_image(file.data(), size_of(file), {}, scratch.extent(), &image).ok());  // there is nothing else to it
  CHECK(decode(greedy_webp(4, 4)).code == Code::kOk);
}

#ifdef OCELLUS_HAS_JPEG  // stb_image holds JPEGs whole, for which more is planned than any WebP takes
TEST_CASE("a WebP too large for its scratch is refused with the bytes that it would take") {
  const Bytes file =
      encode_webp(draw(Kind::kFlat, 1920, 1200, false), 1920, 1200, false, {.lossless = true, .method = 0});
  ImageLimits limits;
  limits.max_pixels = 1920 * 1200;
  ImageFacts facts;
  CHECK(probe_image(file.data(), size_of(file), limits, &facts).code() == Code::kBadImage);
  CHECK(says("1920 x 1200 WebP"));
  limits.max_whole_pixels = 2 * limits.max_pixels;
  REQUIRE(probe_image(file.data(), size_of(file), limits, &facts).ok());
  limits.max_whole_pixels = 0;
  CHECK(probe_image(file.data(), size_of(file), limits, &facts).code() == Code::kBadImage);
  CHECK(says(std::to_string(facts.rows_scratch_bytes).c_str()));
  CHECK(says((std::to_string(facts.whole_pixels) + " whole pixels").c_str()));
  limits.max_whole_pixels = facts.whole_pixels;
  CHECK(decode(file, limits).code == Code::kOk);
}
#endif

TEST_CASE("libwebp gets memory during a decode only, and threads do not share it") {
  CHECK(ocellus_webp_malloc(16) == nullptr);
  CHECK(ocellus_webp_calloc(2, 16) == nullptr);
  CHECK(ocellus_webp_calloc(SIZE_MAX, 16) == nullptr);
  int nobodys = 0;
  ocellus_webp_free(&nobodys);
  ocellus_webp_free(nullptr);
  const Bytes lossy = encode_webp(draw(Kind::kPhoto, 90, 70, true), 90, 70, true, {});
  const Bytes lossless = encode_webp(draw(Kind::kPhoto, 90, 70, false), 90, 70, false, {.lossless = true});
  const Bytes wanted[] = {decode(lossy).pixels, decode(lossless).pixels};
  int wrong[4] = {};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const Bytes& file = i % 2 == 0 ? lossy : lossless;
      ImageFacts facts;
      wrong[i] += !probe_image(file.data(), size_of(file), {}, &facts).ok();
      Bytes scratch(static_cast<size_t>(facts.scratch_bytes));
      for (int round = 0; round < 20; ++round) {
        RgbImage image;
        const Extent memory = {reinterpret_cast<std::byte*>(scratch.data()), facts.scratch_bytes};
        wrong[i] += !decode_image(file.data(), size_of(file), {}, memory, &image).ok();
        wrong[i] += !std::equal(wanted[i % 2].begin(), wanted[i % 2].end(), scratch.begin());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : wrong) CHECK(count == 0);
}
