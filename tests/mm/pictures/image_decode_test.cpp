#include "mm/pictures/image_decode.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "mm/pictures/jpeg_header.h"
#include "mm/pictures/png_passes.h"
#include "tests/support/crafted_pictures.h"
#include "tests/support/pictures.h"
#include "tests/support/small_run.h"
#include "tests/support/whole_pictures.h"

using namespace ocellus;
using namespace ocellus::testing;

namespace {

int64_t size_of(const Bytes& file) { return static_cast<int64_t>(file.size()); }

Bytes noise(int64_t count) {
  Bytes bytes(static_cast<size_t>(count));
  uint32_t state = 1;
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24);
  return bytes;
}

#ifdef OCELLUS_HAS_JPEG
constexpr bool kHasTurbo = true;
#else
constexpr bool kHasTurbo = false;
#endif

ImageLimits tight_limits(int width, int height) {
  ImageLimits limits;
  limits.max_pixels = int64_t{width} * height;
  limits.max_side = std::max(width, height);
  return limits;
}

}  // namespace

TEST_CASE("every kind of JPEG and PNG decodes as Pillow does, in scratch of exactly the announced size") {
  std::ifstream goldens(std::string(OCELLUS_SOURCE_DIR) + "/tests/data/images/goldens.json");
  const nlohmann::json decoded = nlohmann::json::parse(goldens)["decoded"];
  REQUIRE(decoded.size() >= 18);
  for (const auto& [name, expected] : decoded.items()) {
    CAPTURE(name);
    const Bytes file = read_picture_file(name);
    ImageFacts facts;
    const ImageLimits limits;
    REQUIRE(probe_image(file.data(), size_of(file), limits, &facts).ok());
    CHECK(facts.width == expected["width"].get<int>());
    CHECK(facts.height == expected["height"].get<int>());
    CHECK(facts.progressive == (name.find("progressive") == 0 || name.find("interlaced") != std::string::npos));
    CHECK((facts.format == ImageFormat::kPng) == (name.find(".png") != std::string::npos));

    GuardedScratch scratch(facts.scratch_bytes);
    RgbImage image;
    const Status status = decode_image(file.data(), size_of(file), limits, scratch.extent(), &image);
    INFO(last_failure().sentence);
    REQUIRE(status.ok());
    CHECK(scratch.intact());
    CHECK(image.width == facts.width);
    CHECK(image.height == facts.height);
    CHECK(reinterpret_cast<const std::byte*>(image.pixels) == scratch.extent().data);
    const bool is_jpeg = facts.format == ImageFormat::kJpeg;  // which Pillow decodes with libjpeg-turbo, too
    const int tolerance = is_jpeg && kHasTurbo ? 0 : expected["tolerance"].get<int>();
    const auto hash = expected["hash"].get<std::string>();
    if (tolerance == 0) {
      CHECK(fnv(image) == std::stoull(hash, nullptr, 16));
    } else {
      const Bytes reference = read_picture_file(hash + ".rgb");
      REQUIRE(size_of(reference) == 3 * image.width * image.height);
      int worst = 0;
      double sum = 0;
      for (size_t i = 0; i < reference.size(); ++i) {
        const int difference = std::abs(int{reference[i]} - int{image.pixels[i]});
        worst = std::max(worst, difference);
        sum += difference;
      }
      CHECK(worst <= tolerance);
      CHECK(sum / static_cast<double>(reference.size()) < 2.0);
    }

    GuardedScratch short_scratch(facts.scratch_bytes - 1);
    CHECK(decode_image(file.data(), size_of(file), limits, short_scratch.extent(), &image).code() == Code::kFull);
    CHECK(short_scratch.intact());
  }
}

TEST_CASE("grey of 16 bits is depth where the limits say so, and other pictures are as they were") {
  // 7 x 1 samples of 0, 300, 1475, 2650, 5000, 5001 and 65535: gray_16_depth.png, by make_fixtures.py.
  const Bytes file = read_picture_file("gray_16_depth.png");
  ImageFacts facts;
  REQUIRE(probe_image(file.data(), size_of(file), {}, &facts).ok());
  CHECK(facts.bit_depth == 16);
  CHECK(facts.channels == 1);
  const auto shown = [&](const Bytes& bytes, DepthRange depth) {
    ImageLimits limits;
    limits.depth = depth;
    ImageFacts own;
    REQUIRE(probe_image(bytes.data(), size_of(bytes), limits, &own).ok());
    GuardedScratch scratch(own.scratch_bytes);
    RgbImage image;
    REQUIRE(decode_image(bytes.data(), size_of(bytes), limits, scratch.extent(), &image).ok());
    return Bytes(image.pixels, image.pixels + int64_t{3} * image.width * image.height);
  };
  const auto spread = [](const std::vector<uint8_t>& grey) {
    Bytes rgb;
    for (const uint8_t value : grey) rgb.insert(rgb.end(), 3, value);
    return rgb;
  };
  CHECK(shown(file, {}) == spread({0, 1, 5, 10, 19, 19, 255}));
  CHECK(shown(file, {300, 5000}) == spread({0, 255, 191, 128, 0, 0, 0}));
  for (const char* other : {"rgb_16.png", "rgba_16_interlaced.png", "gray_2.png", "gray.jpg"}) {
    const Bytes bytes = read_picture_file(other);
    CHECK(shown(bytes, {300, 5000}) == shown(bytes, {}));
  }
}

TEST_CASE("the planned scratch decodes every layout of JPEG of the planned size") {
  const std::vector<std::vector<int>> layouts = {{0x11, 0x11, 0x11},
                                                 {0x21, 0x11, 0x11},
                                                 {0x12, 0x11, 0x11},
                                                 {0x22, 0x11, 0x11},
                                                 {0x41, 0x11, 0x11},
                                                 {0x22},
                                                 {0x11},
                                                 {0x44}};
  const std::vector<std::pair<int, int>> sizes = {{1, 1},     {1, 200},  {200, 1}, {33, 17},
                                                  {640, 480}, {1000, 5}, {3, 600}, {1023, 769}};
  uint64_t number = 0;
  for (const auto& [width, height] : sizes) {
    const ImageLimits limits = tight_limits(width, height);
    for (const auto& sampling : layouts) {
      for (const int marker : {0xC0, 0xC1, 0xC2}) {
        if (test::skip(number++)) continue;
        CAPTURE(width);
        CAPTURE(height);
        CAPTURE(sampling[0]);
        CAPTURE(marker);
        JpegRecipe recipe;
        recipe.width = width;
        recipe.height = height;
        recipe.sampling = sampling;
        recipe.frame_marker = marker;
        const Bytes file = make_jpeg(recipe);
        GuardedScratch scratch(decode_scratch_bytes(limits));
        RgbImage image;
        const Status status = decode_image(file.data(), size_of(file), limits, scratch.extent(), &image);
        INFO(last_failure().sentence);
        REQUIRE(status.ok());
        CHECK(scratch.intact());
        CHECK(std::all_of(image.pixels, image.pixels + 3 * width * height, [](uint8_t value) { return value == 128; }));
      }
    }
    JpegRecipe cmyk;
    cmyk.width = width;
    cmyk.height = height;
    cmyk.sampling = {0x11, 0x11, 0x11, 0x11};
    cmyk.adobe_transform = 0;
    const Bytes file = make_jpeg(cmyk);
    GuardedScratch scratch(decode_scratch_bytes(limits));
    RgbImage image;
    REQUIRE(decode_image(file.data(), size_of(file), limits, scratch.extent(), &image).ok());
    CHECK(std::all_of(image.pixels, image.pixels + 3 * width * height, [](uint8_t value) { return value == 64; }));
  }
}

TEST_CASE("the planned scratch decodes incompressible PNG of up to 8 bits, in one chunk or many") {
  for (const auto& [width, height] : {std::pair{1, 1}, std::pair{1, 150}, std::pair{77, 61}, std::pair{640, 480}}) {
    const ImageLimits limits = tight_limits(width, height);
    for (const int color : {0, 2, 4, 6}) {
      CAPTURE(width);
      CAPTURE(color);
      const int channels = color == 0 ? 1 : color == 2 ? 3 : color == 4 ? 2 : 4;
      Bytes rows = noise(int64_t{height} * (1 + width * channels));
      for (int y = 0; y < height; ++y)
        rows[static_cast<size_t>(y) * static_cast<size_t>(1 + width * channels)] = static_cast<uint8_t>(y % 5);
      const Bytes stream = store_zlib(rows);
      const auto middle = stream.begin() + size_of(stream) / 2;
      const Bytes file = make_png({png_header(static_cast<uint32_t>(width), static_cast<uint32_t>(height), 8, color),
                                   png_chunk("IDAT", {stream.begin(), middle}), png_chunk("tEXt", {1, 2, 3}),
                                   png_chunk("IDAT", {middle, stream.end()}), png_chunk("IEND", {})});
      GuardedScratch scratch(decode_scratch_bytes(limits));
      RgbImage image;
      const Status status = decode_image(file.data(), size_of(file), limits, scratch.extent(), &image);
      INFO(last_failure().sentence);
      REQUIRE(status.ok());
      CHECK(scratch.intact());
    }
  }
}

#ifdef OCELLUS_HAS_JPEG
TEST_CASE("a progressive picture that does not fit is refused with the bytes it would take") {
  JpegRecipe recipe;
  recipe.width = 2048;
  recipe.height = 1536;
  recipe.frame_marker = 0xC2;
  const Bytes file = make_jpeg(recipe);
  const ImageLimits limits = tight_limits(recipe.width, recipe.height);
  ImageFacts facts;
  CHECK(probe_image(file.data(), size_of(file), limits, &facts).code() == Code::kBadImage);
  const std::string sentence = last_failure().sentence;
  ImageLimits larger = limits;
  larger.max_whole_pixels = limits.max_pixels * 3 / 2;
  REQUIRE(probe_image(file.data(), size_of(file), larger, &facts).ok());
  CHECK(sentence.find(std::to_string(facts.rows_scratch_bytes)) != std::string::npos);
  GuardedScratch scratch(facts.scratch_bytes);
  RgbImage image;
  CHECK(decode_image(file.data(), size_of(file), limits, scratch.extent(), &image).code() == Code::kBadImage);
}

/// Black.
Bytes interlaced_png(int32_t width, int32_t height) {
  PngFacts facts;
  facts.width = width;
  facts.height = height;
  facts.color = PngColor::kRgb;
  facts.bit_depth = 8;
  facts.interlaced = true;
  int64_t bytes = 0;
  for (int i = 0; i < pass_count(facts); ++i) {
    const PngPass pass = png_pass(facts, i);
    bytes += pass.height * (1 + png_row_bytes(facts, pass.width));
  }
  const Bytes header = png_header(static_cast<uint32_t>(width), static_cast<uint32_t>(height), 8, 2, 1);
  return make_png({header, png_chunk("IDAT", store_zlib(Bytes(static_cast<size_t>(bytes)))), png_chunk("IEND", {})});
}

/// Decodes in the scratch that is planned for the limits.
Status decode_within(const Bytes& file, const ImageLimits& limits) {
  struct : RowConsumer {
    void take(const uint8_t*) override {}
  } nobody;
  GuardedScratch scratch(decode_rows_scratch_bytes(limits));
  ImageDecoder decoder;
  REQUIRE(decoder.open().ok());
  const Status status = decoder.decode_rows(file.data(), size_of(file), limits, scratch.extent(), nobody);
  CHECK(scratch.intact());
  return status;
}

TEST_CASE("a picture that does not come row by row decodes where as many whole pixels are planned as it asks for") {
  std::vector<Bytes> files;
  for (const std::vector<int>& sampling :
       {std::vector{0x11, 0x11, 0x11}, {0x21, 0x11, 0x11}, {0x22, 0x11, 0x11}, {0x41, 0x11, 0x11}, {0x11}}) {
    JpegRecipe recipe;
    recipe.width = 1023;
    recipe.height = 769;
    recipe.frame_marker = 0xC2;
    recipe.sampling = sampling;
    files.push_back(make_jpeg(recipe));
    const auto pixels = int64_t{1023} * 769;
    ImageFacts facts;
    REQUIRE(probe_image(files.back().data(), size_of(files.back()), {}, &facts).ok());
    if (sampling.size() == 3) CHECK(facts.whole_pixels <= (sampling[0] == 0x11 ? 1550 : 1030) * pixels / 1000);
  }
  files.push_back(interlaced_png(640, 480));
  for (const Bytes& file : files) {
    ImageFacts facts;
    REQUIRE(probe_image(file.data(), size_of(file), {}, &facts).ok());
    ImageLimits limits = tight_limits(facts.width, facts.height);
    CAPTURE(facts.whole_pixels);
    REQUIRE(facts.whole_pixels > 0);
    limits.max_whole_pixels = facts.whole_pixels;
    CHECK_MESSAGE(decode_within(file, limits).ok(), last_failure().sentence);
    limits.max_whole_pixels = facts.whole_pixels / 2;
    CHECK(decode_within(file, limits).code() == Code::kBadImage);
    CHECK(std::string(last_failure().sentence).find(std::to_string(facts.whole_pixels) + " whole pixels") !=
          std::string::npos);
  }
  JpegRecipe baseline;
  baseline.width = 1023;
  baseline.height = 769;
  const Bytes file = make_jpeg(baseline);
  ImageFacts facts;
  REQUIRE(probe_image(file.data(), size_of(file), {}, &facts).ok());
  CHECK(facts.whole_pixels == 0);
  ImageLimits limits = tight_limits(facts.width, facts.height);
  limits.max_whole_pixels = 1;
  CHECK(decode_within(file, limits).ok());
}

TEST_CASE("what decoding takes grows with the longest side and not with the number of rows") {
  ImageLimits limits;
  limits.max_pixels = 4000 * 3000;
  CHECK(decode_rows_scratch_bytes(limits) < 9'400'000);
  const int64_t before = decode_rows_scratch_bytes(limits);
  limits.max_pixels = 8000 * 6000;
  CHECK(decode_rows_scratch_bytes(limits) == before);
  limits.max_pixels = 256 * 256;
  CHECK(decode_rows_scratch_bytes(limits) < 1'100'000);
}

TEST_CASE("a photo of 12 megapixels decodes in less than a megabyte") {
  JpegRecipe recipe;
  recipe.width = 4000;
  recipe.height = 3000;
  recipe.sampling = {0x22, 0x11, 0x11};
  const Bytes file = make_jpeg(recipe);
  const ImageLimits limits = tight_limits(recipe.width, recipe.height);
  ImageFacts facts;
  REQUIRE(probe_image(file.data(), size_of(file), limits, &facts).ok());
  CHECK(facts.rows_scratch_bytes < 700'000);
  GuardedScratch scratch(facts.rows_scratch_bytes);
  struct Counter final : RowConsumer {
    void take(const uint8_t* row) override { wrong += row[0] != 128 || row[3 * 3999 + 2] != 128, ++rows; }
    int rows = 0, wrong = 0;
  } counter;
  ImageDecoder decoder;
  REQUIRE(decoder.open().ok());
  for (int round = 0; round < 2; ++round)
    REQUIRE(decoder.decode_rows(file.data(), size_of(file), limits, scratch.extent(), counter).ok());
  CHECK(counter.rows == 6000);
  CHECK(counter.wrong == 0);
  CHECK(scratch.intact());
}

#endif

TEST_CASE("what an earlier picture left in the scratch does not show") {
  JpegRecipe recipe;
  recipe.width = 40;
  recipe.height = 24;
  recipe.sampling = {0x22, 0x11, 0x11};
  const Bytes file = make_jpeg(recipe);
  const ImageLimits limits;
  std::vector<std::byte> dirty(1 << 20, std::byte{0x5A}), clean(1 << 20);
  RgbImage first, second;
  REQUIRE(decode_image(file.data(), size_of(file), limits, {dirty.data(), 1 << 20}, &first).ok());
  REQUIRE(decode_image(file.data(), size_of(file), limits, {clean.data(), 1 << 20}, &second).ok());
  CHECK(fnv(first) == fnv(second));
}

TEST_CASE("alpha on white is exact") {
  for (int alpha = 0; alpha < 256; ++alpha) {
    for (int colour = 0; colour < 256; ++colour) {
      REQUIRE(blend_on_white(colour, alpha) == (2 * (colour * alpha + 255 * (255 - alpha)) + 255) / 510);
    }
  }
}

TEST_CASE("the sum of sides is the largest any allowed picture has") {
  for (const auto& [pixels, side, aspect] : {std::tuple{1000, 100, 200}, std::tuple{1000, 8192, 200},
                                             std::tuple{7, 8192, 2}, std::tuple{1, 1, 1}, std::tuple{5000, 60, 3}}) {
    ImageLimits limits;
    limits.max_pixels = pixels;
    limits.max_side = side;
    limits.max_aspect = aspect;
    int64_t most = 0;
    for (int64_t w = 1; w <= std::min(side, pixels); ++w) {
      for (int64_t h = 1; h <= w && w * h <= pixels; ++h) {
        if (w <= aspect * h) most = std::max(most, w + h);
      }
    }
    CAPTURE(pixels);
    CHECK(max_side_sum(limits) >= most);
    CHECK(max_side_sum(limits) <= most + 1);
  }
}

TEST_CASE("a JPEG without Huffman tables decodes by the standard's, to the same pixels") {
  for (const char* name : {"baseline_420.jpg", "baseline_444.jpg", "restart.jpg", "gray.jpg"}) {
    CAPTURE(name);
    const Bytes whole = read_picture_file(name);
    Bytes bare(whole.begin(), whole.begin() + 2), tables;
    for (size_t at = 2; at + 4 < whole.size();) {
      const size_t length =
          whole[at + 1] == 0xDA ? whole.size() - at : 2u + static_cast<size_t>(whole[at + 2] << 8 | whole[at + 3]);
      Bytes& to = whole[at + 1] == 0xC4 ? tables : bare;
      to.insert(to.end(), whole.begin() + static_cast<std::ptrdiff_t>(at),
                whole.begin() + static_cast<std::ptrdiff_t>(at + length));
      at += length;
    }
    REQUIRE(tables.size() > 100);
    ImageFacts facts;
    REQUIRE(probe_image(bare.data(), size_of(bare), {}, &facts).ok());
    GuardedScratch scratch(facts.scratch_bytes), other(facts.scratch_bytes);
    RgbImage image, expected;
    REQUIRE(decode_image(bare.data(), size_of(bare), {}, scratch.extent(), &image).ok());
    REQUIRE(decode_image(whole.data(), size_of(whole), {}, other.extent(), &expected).ok());
    CHECK(std::equal(image.pixels, image.pixels + image.stride_bytes * image.height, expected.pixels));
    JpegFacts facts_of_whole, facts_of_bare;
    REQUIRE(read_jpeg_header(whole.data(), size_of(whole), {}, &facts_of_whole).ok());
    REQUIRE(read_jpeg_header(bare.data(), size_of(bare), {}, &facts_of_bare).ok());
    CHECK(facts_of_whole.lacks_tables_at == -1);
    CHECK(facts_of_bare.lacks_tables_at > 0);
  }
}

TEST_CASE("sides beyond 8192 come row by row where they are planned") {
  const Bytes file = make_jpeg({.width = 20001, .height = 101, .sampling = {0x22, 0x11, 0x11}});
  ImageFacts facts;
  ImageLimits limits;
  CHECK(probe_image(file.data(), size_of(file), limits, &facts).code() == Code::kBadImage);
  CHECK(std::string(last_failure().sentence).find("sides of 8192 were planned") != std::string::npos);
  limits.max_side = 20001;
  REQUIRE(probe_image(file.data(), size_of(file), limits, &facts).ok());
  CHECK(facts.rows_scratch_bytes <= decode_rows_scratch_bytes(limits));
  if (kHasTurbo) CHECK(facts.rows_scratch_bytes < 60 * 20001);
  GuardedScratch scratch(facts.scratch_bytes);
  RgbImage image;
  REQUIRE(decode_image(file.data(), size_of(file), limits, scratch.extent(), &image).ok());
  CHECK(image.width == 20001);
  CHECK(std::count(image.pixels, image.pixels + image.stride_bytes * image.height, 128) == 3 * 20001 * 101);
  limits.max_side = kMostImageSide + 1;
  CHECK(probe_image(file.data(), size_of(file), limits, &facts).code() == Code::kBadArgument);
}
