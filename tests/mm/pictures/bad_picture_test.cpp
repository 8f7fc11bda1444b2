// Damaged and hostile pictures: one sentence and the right code, never a crash, in bounded time and memory.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "mm/pictures/image_decode.h"
#include "mm/pictures/jpeg_header.h"
#include "tests/support/crafted_pictures.h"
#include "tests/support/failure.h"
#include "tests/support/pictures.h"
#include "tests/support/small_run.h"
#include "tests/support/whole_pictures.h"

using namespace ocellus;
using namespace ocellus::testing;

namespace {

const char* const kFiles[] = {"baseline_444.jpg",
                              "baseline_420.jpg",
                              "progressive_422.jpg",
                              "progressive_444.jpg",
                              "gray.jpg",
                              "restart.jpg",
                              "cmyk.jpg",
                              "ycck.jpg",
                              "rgb.png",
                              "rgba.png",
                              "gray_alpha.png",
                              "palette.png",
                              "palette_alpha.png",
                              "gray_1.png",
                              "gray_2.png",
                              "rgb_16.png",
                              "rgba_16_interlaced.png",
                              "rgb_interlaced.png",
                              "rgb_key.png"};

ImageLimits small_limits() {
  ImageLimits limits;
  limits.max_pixels = 1 << 14;
  limits.max_side = 1024;
  return limits;
}

/// Decodes; checks that whatever happens is a value. Returns the code.
Code decode(const Bytes& file) {
  static GuardedScratch scratch(decode_scratch_bytes(small_limits()));
  RgbImage image;
  test::clear_failure();
  const Status status =
      decode_image(file.data(), static_cast<int64_t>(file.size()), small_limits(), scratch.extent(), &image);
  REQUIRE(scratch.intact());
  if (status.ok()) {
    REQUIRE(int64_t{image.width} * image.height <= small_limits().max_pixels);
  } else {
    const Code code = status.code();
    REQUIRE((code == Code::kBadImage || code == Code::kUnsupported || code == Code::kFull));
    REQUIRE(std::string(last_failure().sentence).size() > 20);
  }
  return status.code();
}

bool says(const char* words) { return std::string(last_failure().sentence).find(words) != std::string::npos; }

Bytes with_rows(const Bytes& header, const Bytes& rows) {
  return make_png({header, png_chunk("IDAT", store_zlib(rows)), png_chunk("IEND", {})});
}

/// Bits packed as deflate does; Huffman codes go in from their high bit.
struct BitWriter {
  Bytes bytes;
  int used = 0;
  void bit(int value) {
    if (used % 8 == 0) bytes.push_back(0);
    bytes.back() = static_cast<uint8_t>(bytes.back() | value << (used++ % 8));
  }
  void code(int value, int count) {
    for (int i = count - 1; i >= 0; --i) bit(value >> i & 1);
  }
};

}  // namespace

TEST_CASE("a picture cut at any length is refused") {
  for (const char* name : kFiles) {
    const Bytes file = read_picture_file(name);
    CAPTURE(name);
    REQUIRE(decode(file) == Code::kOk);
    for (size_t length = 0; length + 1 < file.size(); length += file.size() > 2000 ? 7 : 1) {
      if (test::skip(length)) continue;
      CAPTURE(length);
      REQUIRE(decode(Bytes(file.begin(), file.begin() + static_cast<int64_t>(length))) == Code::kBadImage);
    }
  }
}

TEST_CASE("flipped bits give an error or a picture") {
  std::mt19937 random(2026);
  int survived = 0;
  for (int round = 0; round < 6000; ++round) {
    if (test::skip(static_cast<uint64_t>(round))) continue;
    Bytes file = read_picture_file(kFiles[static_cast<size_t>(round) % std::size(kFiles)]);
    const size_t reach = round % 2 == 0 ? std::min<size_t>(file.size(), 300) : file.size();
    for (int flips = 1 + round % 3; flips > 0; --flips) {
      file[random() % reach] ^= static_cast<uint8_t>(1 << random() % 8);
    }
    CAPTURE(round);
    survived += decode(file) == Code::kOk;
  }
  const int fewest = test::is_small_run() ? 8 : 100;
  const int rounds = test::is_small_run() ? 462 : 6000;
  CHECK(survived > fewest);           // the test reaches the pixel data
  CHECK(survived < rounds - fewest);  // and the headers
}

TEST_CASE("a thin bomb is refused by its aspect") {
  const Bytes file = read_picture_file("thin_20000x1.png");
  CHECK(file.size() < 160);
  ImageLimits limits;
  limits.max_side = kMostImageSide;
  ImageFacts facts;
  CHECK(probe_image(file.data(), static_cast<int64_t>(file.size()), limits, &facts).code() == Code::kBadImage);
  CHECK(says("200 to 1"));
  CHECK(probe_image(file.data(), static_cast<int64_t>(file.size()), {}, &facts).code() == Code::kBadImage);
  CHECK(says("8192"));
}

TEST_CASE("limits are checked before anything else") {
  ImageFacts facts;
  const Bytes file = read_picture_file("rgb.png");
  ImageLimits limits;
  limits.max_encoded_bytes = 10;
  CHECK(probe_image(file.data(), static_cast<int64_t>(file.size()), limits, &facts).code() == Code::kBadImage);
  CHECK(says("10 were planned"));
  limits = {};
  limits.max_pixels = 45 * 37 - 1;
  CHECK(probe_image(file.data(), static_cast<int64_t>(file.size()), limits, &facts).code() == Code::kBadImage);
  CHECK(says("1665 pixels, but 1664 were planned"));
  limits.max_pixels = 0;
  CHECK(probe_image(file.data(), static_cast<int64_t>(file.size()), limits, &facts).code() == Code::kBadArgument);
  CHECK(probe_image(nullptr, 5, {}, &facts).code() == Code::kBadArgument);
}

TEST_CASE("PNG headers that lie are refused") {
  const Bytes rows(4 * 13, 0);  // 4 rows of 4 RGB pixels
  CHECK(decode(with_rows(png_header(4, 4, 8, 2), rows)) == Code::kOk);
  CHECK(decode(with_rows(png_header(4, 5, 8, 2), rows)) == Code::kBadImage);  // too few pixels
  CHECK(decode(with_rows(png_header(4, 3, 8, 2), rows)) == Code::kBadImage);  // too many
  CHECK(decode(with_rows(png_header(0, 4, 8, 2), rows)) == Code::kBadImage);
  CHECK(decode(with_rows(png_header(4, 0, 8, 2), rows)) == Code::kBadImage);
  CHECK(decode(with_rows(png_header(0xFFFFFFFF, 4, 8, 2), rows)) == Code::kBadImage);
  CHECK(decode(with_rows(png_header(0x7FFFFFFF, 0x7FFFFFFF, 16, 6), rows)) == Code::kBadImage);
  CHECK(decode(with_rows(png_header(4, 4, 4, 2), rows)) == Code::kBadImage);   // RGB of 4 bits
  CHECK(decode(with_rows(png_header(4, 4, 16, 3), rows)) == Code::kBadImage);  // palette of 16 bits
  CHECK(decode(with_rows(png_header(4, 4, 8, 5), rows)) == Code::kBadImage);
  CHECK(decode(with_rows(png_header(4, 4, 8, 2, 2), rows)) == Code::kBadImage);
  CHECK(decode(with_rows(png_header(4, 4, 8, 3), Bytes(20, 0))) == Code::kBadImage);  // no palette
  Bytes filtered = rows;
  filtered[13] = 5;
  CHECK(decode(with_rows(png_header(4, 4, 8, 2), filtered)) == Code::kBadImage);
  CHECK(says("filter 5"));
}

TEST_CASE("PNG chunks out of place are refused") {
  const Bytes header = png_header(2, 2, 8, 0), data = png_chunk("IDAT", store_zlib(Bytes(6, 0))),
              end = png_chunk("IEND", {});
  CHECK(decode(make_png({header, data, end})) == Code::kOk);
  CHECK(decode(make_png({header, png_chunk("gAMA", {0, 0, 0, 1}), png_chunk("acTL", Bytes(8, 0)), data, end})) ==
        Code::kOk);
  CHECK(decode(make_png({header, end})) == Code::kBadImage);
  CHECK(says("no pixel data"));
  CHECK(decode(make_png({data, header, end})) == Code::kBadImage);
  CHECK(decode(make_png({header, header, data, end})) == Code::kUnsupported);
  CHECK(decode(make_png({header, data})) == Code::kBadImage);
  CHECK(decode(make_png({png_chunk("CgBI", Bytes(4, 0)), header, data, end})) == Code::kUnsupported);
  CHECK(decode(make_png({header, png_chunk("tRNS", Bytes(3, 0)), data, end})) == Code::kBadImage);
  CHECK(decode(make_png({header, png_chunk("IDAT", {0x78, 0x01, 0x07, 0, 0}), end})) == Code::kBadImage);
  CHECK(decode(make_png({header, png_chunk("IDAT", {}), png_chunk("IDAT", {}), end})) == Code::kBadImage);
  Bytes huge = make_png({header, data, end});
  huge[8 + 25] = 0xFF;  // the length of IDAT
  CHECK(decode(huge) == Code::kBadImage);
  const Bytes palette = png_header(2, 2, 8, 3);
  CHECK(decode(make_png({palette, png_chunk("PLTE", {1, 2, 3}), png_chunk("tRNS", {1, 2}), data, end})) ==
        Code::kBadImage);
  CHECK(decode(make_png({palette, png_chunk("PLTE", Bytes(771, 0)), data, end})) == Code::kBadImage);
  // An index beyond the palette is black, not the memory after the table.
  CHECK(decode(make_png({palette, png_chunk("PLTE", {1, 2, 3}), png_chunk("IDAT", store_zlib({0, 0, 255, 0, 7, 7})),
                         end})) == Code::kOk);
}

TEST_CASE("a distance of zero in a deflate stream shows nothing of the scratch") {
  BitWriter writer;
  writer.bytes = {0x78, 0x01};
  writer.used = 16;
  for (const int value : {1, 1, 0}) writer.bit(value);  // the last block, fixed codes
  writer.code(0x30, 8);                                 // literal 0: the filter byte
  writer.code(0xC5, 8);                                 // length 258
  writer.code(30, 5);                                   // a distance code that does not exist
  writer.code(0, 7);
  append(writer.bytes, {0, 0, 0, 0});
  const Bytes file = make_png({png_header(86, 1, 8, 2), png_chunk("IDAT", writer.bytes), png_chunk("IEND", {})});
  GuardedScratch scratch(decode_scratch_bytes(small_limits()));  // full of rubbish
  RgbImage image;
  if (decode_image(file.data(), static_cast<int64_t>(file.size()), small_limits(), scratch.extent(), &image).ok()) {
    CHECK(std::all_of(image.pixels, image.pixels + 258, [](uint8_t value) { return value == 0; }));
  }
}

TEST_CASE("deflate streams of nothing but empty blocks are refused at once") {
  Bytes stream = {0x78, 0x01};
  for (int i = 0; i < 200'000; ++i) append(stream, {0, 0, 0, 0xFF, 0xFF});
  const auto start = std::chrono::steady_clock::now();
  CHECK(decode(make_png({png_header(4, 4, 8, 2), png_chunk("IDAT", stream), png_chunk("IEND", {})})) ==
        Code::kBadImage);
  CHECK(says("more compressed data than pixels"));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));  // at once, on a loaded machine, too
}

TEST_CASE("JPEG without what it needs is refused by name") {
  const auto broken = [](auto change) {
    JpegRecipe recipe;
    change(recipe);
    return decode(make_jpeg(recipe));
  };
  CHECK(broken([](JpegRecipe&) {}) == Code::kOk);
  CHECK(broken([](JpegRecipe& r) {
          r.huffman = false;
          r.frame_marker = 0xC2;
        }) == Code::kBadImage);
  CHECK(says("Huffman table that it does not define"));
  CHECK(broken([](JpegRecipe& r) { r.quantisation = false; }) == Code::kBadImage);
  CHECK(says("quantisation table 0"));
  CHECK(broken([](JpegRecipe& r) { r.frame = false; }) == Code::kBadImage);
  CHECK(says("before its frame header"));
  CHECK(broken([](JpegRecipe& r) { r.frame = r.scan = false; }) == Code::kBadImage);
  CHECK(says("no frame header"));
  CHECK(broken([](JpegRecipe& r) { r.scan = false; }) == Code::kBadImage);
  CHECK(says("no scan"));
  CHECK(broken([](JpegRecipe& r) { r.end = false; }) == Code::kBadImage);
  CHECK(broken([](JpegRecipe& r) { r.sampling = {}; }) == Code::kBadImage);
  CHECK(says("0 components"));
  CHECK(broken([](JpegRecipe& r) { r.sampling = {0x11, 0x11}; }) == Code::kBadImage);
  CHECK(broken([](JpegRecipe& r) { r.sampling = {0x31, 0x21, 0x11}; }) == Code::kUnsupported);
  CHECK(says("fraction"));
  CHECK(broken([](JpegRecipe& r) { r.sampling = {0x51, 0x11, 0x11}; }) == Code::kBadImage);
  CHECK(broken([](JpegRecipe& r) { r.height = 0; }) == Code::kBadImage);
  CHECK(broken([](JpegRecipe& r) { r.width = 1025; }) == Code::kBadImage);
  CHECK(broken([](JpegRecipe& r) { r.sampling = {0x11, 0x11, 0x11, 0x11}; }) == Code::kUnsupported);
  CHECK(says("Adobe"));
  CHECK(broken([](JpegRecipe& r) {
          r.sampling = {0x11, 0x11, 0x11, 0x11};
          r.adobe_transform = 2;
        }) == Code::kOk);
}

TEST_CASE("kinds of JPEG we do not decode are named") {
  const auto kind = [](int marker, const char* word) {
    JpegRecipe recipe;
    recipe.frame_marker = marker;
    CHECK(decode(make_jpeg(recipe)) == Code::kUnsupported);
    CHECK(says(word));
  };
  kind(0xC3, "lossless");
  kind(0xC5, "hierarchical");
  kind(0xC9, "arithmetic");
  kind(0xCA, "arithmetic");
  kind(0xF7, "JPEG-LS");
  Bytes deep = make_jpeg({});
  const Bytes frame = {0xFF, 0xC0, 0, 17, 8};
  *(std::search(deep.begin(), deep.end(), frame.begin(), frame.end()) + 4) = 12;
  CHECK(decode(deep) == Code::kUnsupported);
  CHECK(says("12 bits"));
}

TEST_CASE("JPEG tables and segments that overflow are refused") {
  const auto with_segment = [](const Bytes& segment) {
    Bytes file = make_jpeg({});
    file.insert(file.begin() + 2, segment.begin(), segment.end());
    return decode(file);
  };
  Bytes table(17, 0);
  table[16] = 255;
  table[15] = 100;
  Bytes symbols = table;
  symbols.insert(symbols.end(), 355, 0);
  CHECK(with_segment(jpeg_segment(0xC4, symbols)) == Code::kBadImage);  // 355 symbols
  CHECK(says("355 symbols"));
  Bytes crowded(17, 0);
  crowded[1] = 3;
  append(crowded, {0, 0, 0});
  CHECK(with_segment(jpeg_segment(0xC4, crowded)) == Code::kBadImage);  // three codes of one bit
  CHECK(with_segment(jpeg_segment(0xC4, Bytes(9, 0))) == Code::kBadImage);
  CHECK(with_segment(jpeg_segment(0xC4, Bytes(17, 4))) == Code::kBadImage);
  CHECK(with_segment(jpeg_segment(0xDB, Bytes(60, 0))) == Code::kBadImage);
  CHECK(with_segment({0xFF, 0xE0, 0, 1}) == Code::kBadImage);
  CHECK(with_segment({0xFF, 0xE0, 0xFF, 0xFF}) == Code::kBadImage);
  CHECK(with_segment({0xFF, 0xD0}) == Code::kBadImage);
  CHECK(with_segment({0xFF, 0xFF, 0xFF}) == Code::kOk);  // fill bytes
  Bytes twice = make_jpeg({});
  const Bytes frame = {0xFF, 0xC0, 0, 17, 8};
  const auto at = std::search(twice.begin(), twice.end(), frame.begin(), frame.end());
  const Bytes copy(at, at + 19);
  twice.insert(at, copy.begin(), copy.end());
  CHECK(decode(twice) == Code::kBadImage);
  CHECK(says("two frame headers"));
}

TEST_CASE("endless scans are refused") {
  JpegRecipe recipe;
  recipe.scans = 2;
  CHECK(decode(make_jpeg(recipe)) == Code::kBadImage);
  CHECK(says("twice"));
  recipe.frame_marker = 0xC2;
  recipe.scans = kMaxJpegScans;
  CHECK(decode(make_jpeg(recipe)) == Code::kOk);
  recipe.scans = kMaxJpegScans + 1;
  CHECK(decode(make_jpeg(recipe)) == Code::kBadImage);
  CHECK(says("more than 100 scans"));
}

TEST_CASE("a picture of another kind is refused by its name, with the right article") {
  const auto refuse = [](const char* start) {
    Bytes file(start, start + 12);
    file.resize(64, 0);
    CHECK(decode(file) != Code::kOk);
  };
  refuse(
      "\0\0\0\x1C"
      "ftypavif");
  CHECK(says("the picture is an AVIF file"));
  refuse(
      "\0\0\0\x1C"
      "ftypheic");
  CHECK(says("the picture is a HEIC file"));
}

#ifdef OCELLUS_HAS_JPEG
TEST_CASE("damage inside the data of a JPEG is told, padding behind them is not damage") {
  for (const char* name : {"baseline_420.jpg", "progressive_444.jpg", "restart.jpg"}) {
    CAPTURE(name);
    const Bytes file = read_picture_file(name);
    Bytes cut(file.begin(), file.begin() + static_cast<int64_t>(file.size()) * 2 / 3);
    append(cut, {0xFF, 0xD9});
    CHECK(decode(cut) == Code::kBadImage);
    CHECK(says("the JPEG is damaged ("));
    Bytes padded = file;
    padded.insert(padded.end() - 2, 500, 0);
    CHECK(decode(padded) == Code::kOk);
    padded.insert(padded.end() - 2, 500, 7);
    CHECK(decode(padded) == Code::kBadImage);
  }
}
#endif

TEST_CASE("other formats are named") {
  const auto named = [](const Bytes& file, const char* name) {
    CHECK(decode(file) == Code::kUnsupported);
    CHECK(says(name));
  };
#ifndef OCELLUS_HAS_WEBP
  named({'R', 'I', 'F', 'F', 9, 0, 0, 0, 'W', 'E', 'B', 'P', 0}, "a WebP file: convert it to JPEG or PNG");
#endif
  named({'R', 'I', 'F', 'F', 9, 0, 0, 0, 'A', 'V', 'I', ' ', 0}, "AVI");
#ifndef OCELLUS_HAS_HEIF
  named({0, 0, 0, 24, 'f', 't', 'y', 'p', 'h', 'e', 'i', 'c'}, "HEIC");
  named({0, 0, 0, 24, 'f', 't', 'y', 'p', 'a', 'v', 'i', 'f'}, "AVIF");
#endif
  named({0, 0, 0, 24, 'f', 't', 'y', 'p', 'i', 's', 'o', 'm'}, "an MP4");
  named({'%', 'P', 'D', 'F', '-', '1'}, "PDF");
  named({'I', 'I', '*', 0, 8, 0}, "TIFF");
  named({'G', 'G', 'U', 'F', 3, 0, 0, 0}, "it is a GGUF model file, not a picture");
  CHECK(decode({'h', 'e', 'l', 'l', 'o', ' ', 'w', 'o', 'r', 'l', 'd'}) == Code::kBadImage);
  CHECK(says("no JPEG, PNG, WebP, GIF, BMP, HEIC or AVIF file"));
  CHECK(decode({0xFF}) == Code::kBadImage);
  CHECK(decode(Bytes(1, 0)) == Code::kBadImage);
  ImageFacts facts;
  const uint8_t nothing = 0;
  CHECK(probe_image(&nothing, 0, {}, &facts).code() == Code::kBadImage);
}
