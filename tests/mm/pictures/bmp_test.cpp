// BMP: pixels by the format's numbers, and as stb_image makes them, row by row.
#include <doctest/doctest.h>

#include "mm/pictures/bmp_image.h"

#define STBI_ONLY_BMP
#define STBI_NO_STDIO
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb_image.h>
#pragma GCC diagnostic pop

#include "tests/support/decoded_file.h"
#include "tests/support/random.h"

using namespace ocellus;
using namespace ocellus::testing;

namespace {

struct BmpRecipe {
  int width = 5, height = 3, bits = 24;  // a negative height: from the top
  uint32_t header_bytes = 40, compression = 0, colors = 0;
  std::vector<uint32_t> masks = {};
  Bytes palette = {};
  uint64_t seed = 1;
};

void append_le(Bytes& out, uint32_t value, int count) {
  for (int i = 0; i < count; ++i) out.push_back(static_cast<uint8_t>(value >> (8 * i)));
}

Bytes make_bmp(const BmpRecipe& recipe) {
  Bytes header;
  append_le(header, recipe.header_bytes, 4);
  const int size_bytes = recipe.header_bytes == 12 ? 2 : 4;
  append_le(header, static_cast<uint32_t>(recipe.width), size_bytes);
  append_le(header, static_cast<uint32_t>(recipe.height), size_bytes);
  append_le(header, 1, 2);
  append_le(header, static_cast<uint32_t>(recipe.bits), 2);
  if (recipe.header_bytes > 12) {
    for (const uint32_t value : {recipe.compression, 0u, 0u, 0u, recipe.colors, 0u}) append_le(header, value, 4);
    for (const uint32_t mask : recipe.masks) append_le(header, mask, 4);
    if (header.size() < recipe.header_bytes) header.resize(recipe.header_bytes);
  }
  append(header, recipe.palette);
  Bytes out = {'B', 'M', 0, 0, 0, 0, 0, 0, 0, 0};
  append_le(out, static_cast<uint32_t>(14 + header.size()), 4);
  append(out, header);
  const int row_bytes = (recipe.width * recipe.bits + 31) / 32 * 4;
  append(out, test::Random(recipe.seed).bytes(int64_t{row_bytes} * std::abs(recipe.height)));
  return out;
}

Bytes pixels_of_stb(const Bytes& file) {
  int width = 0, height = 0, channels = 0;
  stbi_uc* const pixels =
      stbi_load_from_memory(file.data(), static_cast<int>(file.size()), &width, &height, &channels, 3);
  REQUIRE_MESSAGE(pixels != nullptr, stbi_failure_reason());
  Bytes out(pixels, pixels + width * height * 3);
  stbi_image_free(pixels);
  return out;
}

Bytes palette_of(int colors, int color_bytes) { return test::Random(9).bytes(int64_t{colors} * color_bytes); }

}  // namespace

TEST_CASE("BMP of 1, 4, 8, 24 and 32 bits decodes as stb_image does, row by row") {
  for (const int width : {1, 2, 7, 8, 33}) {
    for (const int height : {5, -5}) {
      for (const BmpRecipe& kind :
           {BmpRecipe{.bits = 1, .palette = palette_of(2, 4)},
            {.bits = 4, .palette = palette_of(16, 4)},
            {.bits = 8, .palette = palette_of(256, 4)},
            {.bits = 8, .header_bytes = 108, .palette = palette_of(256, 4)},
            {.bits = 24},
            {.bits = 24, .header_bytes = 124},
            {.bits = 32},
            {.bits = 32, .header_bytes = 40, .compression = 3, .masks = {0xFF0000, 0xFF00, 0xFF}},
            {.bits = 32, .header_bytes = 108, .compression = 3, .masks = {0xFF, 0xFF00, 0xFF0000, 0}}}) {
        BmpRecipe recipe = kind;
        recipe.width = width;
        recipe.height = height;
        CAPTURE(recipe.bits);
        CAPTURE(width);
        const Bytes file = make_bmp(recipe);
        const DecodedFile decoded = decode_file(file);
        INFO(last_failure().sentence);
        REQUIRE(decoded.code == Code::kOk);
        CHECK(decoded.facts.format == ImageFormat::kBmp);
        CHECK(decoded.facts.whole_pixels == 0);
        CHECK(decoded.facts.rows_scratch_bytes == 3 * width);
        CHECK(decoded.pixels == pixels_of_stb(file));
      }
    }
  }
}

TEST_CASE("BMP of the oldest kind has colours of three bytes") {
  const Bytes file = make_bmp({.bits = 8, .header_bytes = 12, .palette = palette_of(256, 3)});
  const DecodedFile decoded = decode_file(file);
  REQUIRE(decoded.code == Code::kOk);
  const Bytes palette = palette_of(256, 3);
  const size_t last_row = 14 + 12 + 768;  // the file's first
  for (size_t c = 0; c < 3; ++c) CHECK(decoded.pixels[2 * 5 * 3 + c] == palette[size_t{3} * file[last_row] + 2 - c]);
}

TEST_CASE("channels of few bits reach from 0 to 255, and alpha goes on white") {
  Bytes file = make_bmp({.width = 2, .height = 1, .bits = 16});
  const auto put16 = [&file](int x, uint32_t value) {
    file[file.size() - 4 + static_cast<size_t>(2 * x)] = static_cast<uint8_t>(value & 255);
    file[file.size() - 3 + static_cast<size_t>(2 * x)] = static_cast<uint8_t>(value >> 8);
  };
  put16(0, 31u << 10 | 4 << 5 | 1);  // as Pillow has them: rounded down
  put16(1, 0x7FFF);
  CHECK(decode_file(file).pixels == Bytes{255, 32, 8, 255, 255, 255});
  file = make_bmp({.width = 2, .height = 1, .bits = 16, .compression = 3, .masks = {0xF800, 0x7E0, 0x1F}});
  put16(0, 63u << 5);
  put16(1, 31u << 11 | 1 << 5);
  CHECK(decode_file(file).pixels == Bytes{0, 255, 0, 255, 4, 0});
  const std::vector<uint32_t> masks = {0xFF0000, 0xFF00, 0xFF, 0xFF000000};
  file = make_bmp({.width = 2, .height = 1, .bits = 32, .header_bytes = 56, .compression = 3, .masks = masks});
  const Bytes two = {10, 20, 30, 0, 10, 20, 30, 255};
  std::copy(two.begin(), two.end(), file.end() - 8);
  CHECK(decode_file(file).pixels == Bytes{255, 255, 255, 30, 20, 10});
  file[file.size() - 1] = 0;  // alpha that is nowhere set is none
  CHECK(decode_file(file).pixels == Bytes{30, 20, 10, 30, 20, 10});
}

TEST_CASE("BMPs of other kinds are named, cut and damaged ones refused") {
  const auto refused = [](const BmpRecipe& recipe, Code code, const char* words) {
    CHECK(decode_file(make_bmp(recipe)).code == code);
    CHECK(failure_says(words));
  };
  refused({.bits = 8, .compression = 1}, Code::kUnsupported, "run-length coded");
  refused({.bits = 4, .compression = 2}, Code::kUnsupported, "run-length coded");
  refused({.compression = 5}, Code::kUnsupported, "a JPEG or PNG inside");
  refused({.bits = 24, .compression = 3}, Code::kBadImage, "24 bits a pixel and compression 3");
  refused({.bits = 3}, Code::kBadImage, "3 bits a pixel");
  refused({.bits = 32, .compression = 3, .masks = {0xFF, 0xFF, 0xFF0000}}, Code::kBadImage, "the mask 000000FF");
  refused({.bits = 32, .compression = 3, .masks = {0xF0F, 0xF000, 0xFF0000}}, Code::kBadImage, "the mask 00000F0F");
  refused({.bits = 32, .compression = 3, .masks = {0, 0xF000, 0xFF0000}}, Code::kBadImage, "the mask 00000000");
  refused({.width = 0}, Code::kBadImage, "0 x 3");
  Bytes endless = make_bmp({});
  for (size_t i = 0; i < 4; ++i) endless[22 + i] = i == 3 ? 0x80 : 0;  // the least height
  CHECK(decode_file(endless).code == Code::kBadImage);
  refused({.bits = 8, .colors = 300}, Code::kBadImage, "truncated");
  const Bytes file = make_bmp({.bits = 8, .palette = palette_of(256, 4)});
  for (size_t cut = 18; cut < file.size(); ++cut)
    CHECK(decode_file(Bytes(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(cut))).code == Code::kBadImage);
  Bytes missing = make_bmp({.bits = 8, .colors = 2, .palette = {1, 2, 3, 0, 4, 5, 6, 0}});
  for (size_t i = missing.size() - 24; i < missing.size(); ++i) missing[i] = 200;
  CHECK(decode_file(missing).pixels == Bytes(45, 0));  // colours that the palette lacks
}
