// GIF and BMP files, small ones with changes in their headers, blocks and codes; of GIFs every frame is drawn.
#include <algorithm>
#include <memory>

#include "mm/pictures/gif_decoder.h"
#include "tests/fuzz/byte_changes.h"
#include "tests/fuzz/picture_seeds.h"
#include "tests/support/gif_files.h"

namespace ocellus::fuzz {
namespace {

constexpr int32_t kMaxSide = 512;
constexpr int64_t kMaxPixels = 1 << 12;
constexpr int kMaxFrames = 64;

std::vector<Bytes> make_gif_seeds() {
  const Bytes palette = {255, 0, 0, 0, 255, 0, 0, 0, 255, 9, 9, 9};
  std::vector<testing::GifPart> parts;
  for (int i = 0; i < 4; ++i) {
    testing::GifPart part{.left = i, .top = i, .width = 9, .height = 7, .interlaced = i % 2 == 1, .disposal = i};
    for (int p = 0; p < 63; ++p) part.indices.push_back(static_cast<uint8_t>(p * (i + 1) / 5 % 4));
    if (i > 1) part.transparent = 2;
    if (i == 3) part.palette = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    parts.push_back(part);
  }
  return {testing::make_gif(12, 10, palette, {parts[0]}), testing::make_gif(12, 10, palette, {parts[1]}),
          testing::make_gif(12, 10, palette, parts), read_source_file("tests/data/images/picture.gif")};
}

void draw_all(const uint8_t* data, int64_t size) {
  GifFacts facts;
  if (!read_gif_header(data, size, {.max_pixels = kMaxPixels, .max_side = kMaxSide}, &facts).ok()) return;
  const int64_t bytes = gif_animation_bytes(facts.width, facts.height);
  const std::unique_ptr<std::byte[]> memory(new std::byte[static_cast<size_t>(bytes)]);
  int drawn = 0;
  for (int64_t place = 0; drawn < kMaxFrames; ++drawn) {
    RgbImage image;
    if (!next_gif_frame(data, size, &place, {memory.get(), bytes}, &image).ok() || place < 0) break;
    require(image.width == facts.width && image.height == facts.height, "a frame has the size of the screen");
  }
  require(drawn <= std::max(facts.frame_count, kMaxFrames), "there are as many frames as the header says");
}

bool run_gif(const uint8_t* data, size_t size) {
  if (is_gif(data, static_cast<int64_t>(size))) draw_all(data, static_cast<int64_t>(size));
  return decode_picture(data, size);
}

std::vector<Bytes> make_bmp_seeds() {
  Bytes palette_bmp = read_source_file("tests/data/images/picture.bmp");
  Bytes masked = {'B', 'M', 0, 0, 0, 0, 0, 0, 0, 0, 66, 0,  0, 0, 40, 0, 0,
                  0,   2,   0, 0, 0, 2, 0, 0, 0, 1, 0,  32, 0, 3, 0,  0, 0};
  masked.resize(54);
  for (const uint8_t byte : {0, 0, 255, 0, 0, 255, 0, 0, 255, 0, 0, 0}) masked.push_back(byte);
  masked.resize(66 + 16, 77);
  return {palette_bmp, masked};
}

void change_file(Bytes& input, Random& random) { change_bytes(input, random); }

const Registration kGif({.name = "gif", .make_seeds = make_gif_seeds, .mutate = change_file, .run = run_gif});
const Registration kBmp({.name = "bmp", .make_seeds = make_bmp_seeds, .mutate = change_file, .run = decode_picture});

}  // namespace
}  // namespace ocellus::fuzz
