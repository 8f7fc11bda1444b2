// GIF: the pixels that stb_image makes, frame by frame, in the scratch that was stated, or one sentence.
#include <doctest/doctest.h>

#include <chrono>

#include "mm/pictures/gif_decoder.h"

#define STBI_ONLY_GIF
#define STBI_NO_STDIO
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb_image.h>
#pragma GCC diagnostic pop

#include "tests/support/decoded_file.h"
#include "tests/support/gif_files.h"
#include "tests/support/random.h"

using namespace ocellus;
using namespace ocellus::testing;

namespace {

Bytes any_palette(test::Random& random, int colors) { return random.bytes(3 * colors); }

/// Long runs and noise, so that codes are short and long and the table fills.
Bytes any_indices(test::Random& random, int count, int colors) {
  Bytes out;
  while (static_cast<int>(out.size()) < count) {
    const auto index = static_cast<uint8_t>(random.integer(0, colors - 1));
    out.insert(out.end(), random.integer(0, 3) == 0 ? 40 : 1, index);
  }
  out.resize(static_cast<size_t>(count));
  return out;
}

/// All frames as stb_image has them, RGBA on white.
std::vector<Bytes> frames_of_stb(const Bytes& file) {
  int width = 0, height = 0, count = 0, channels = 0;
  int* delays = nullptr;
  stbi_uc* const all = stbi_load_gif_from_memory(file.data(), static_cast<int>(file.size()), &delays, &width, &height,
                                                 &count, &channels, 4);
  REQUIRE(all != nullptr);
  std::vector<Bytes> frames;
  for (int i = 0; i < count; ++i) {
    Bytes& frame = frames.emplace_back();
    const stbi_uc* at = all + static_cast<std::ptrdiff_t>(i) * width * height * 4;
    for (int p = 0; p < width * height; ++p, at += 4)
      for (int c = 0; c < 3; ++c) frame.push_back(at[3] > 128 ? at[c] : uint8_t{255});
  }
  stbi_image_free(all);
  stbi_image_free(delays);
  return frames;
}

std::vector<Bytes> frames_of_ours(const Bytes& file) {
  const DecodedFile first = decode_file(file);
  REQUIRE(first.code == Code::kOk);
  GuardedScratch memory(gif_animation_bytes(first.facts.width, first.facts.height));
  std::vector<Bytes> frames;
  for (int64_t place = 0;;) {
    RgbImage image;
    REQUIRE(next_gif_frame(file.data(), static_cast<int64_t>(file.size()), &place, memory.extent(), &image).ok());
    if (place < 0) break;
    frames.emplace_back(image.pixels, image.pixels + image.stride_bytes * image.height);
  }
  REQUIRE(memory.intact());
  CHECK(static_cast<int32_t>(frames.size()) == first.facts.frame_count);
  CHECK(frames[0] == first.pixels);
  return frames;
}

GifPart any_part(test::Random& random, int width, int height, int colors) {
  GifPart part;
  part.width = static_cast<int>(random.integer(1, width));
  part.height = static_cast<int>(random.integer(1, height));
  part.left = static_cast<int>(random.integer(0, width - part.width));
  part.top = static_cast<int>(random.integer(0, height - part.height));
  part.indices = any_indices(random, part.width * part.height, colors);
  part.interlaced = random.integer(0, 1) == 1;
  if (random.integer(0, 1) == 1) part.transparent = static_cast<int>(random.integer(0, colors - 1));
  return part;
}

}  // namespace

TEST_CASE("still GIFs decode as stb_image does, in scratch of exactly the announced size") {
  test::Random random(5);
  for (int round = 0; round < 120; ++round) {
    CAPTURE(round);
    const int colors = 1 << random.integer(1, 8);
    const int width = static_cast<int>(random.integer(1, 90)), height = static_cast<int>(random.integer(1, 70));
    const Bytes palette = any_palette(random, colors);
    const GifPart part = any_part(random, width, height, colors);
    const Bytes file = make_gif(width, height, palette, {part});
    const DecodedFile decoded = decode_file(file);
    INFO(last_failure().sentence);
    REQUIRE(decoded.code == Code::kOk);
    CHECK(decoded.facts.format == ImageFormat::kGif);
    CHECK(decoded.facts.frame_count == 1);
    CHECK(decoded.facts.progressive == part.interlaced);
    if (decoded.facts.whole_pixels > 0) CHECK(part.interlaced);  // a small one takes no more than rows do
    CHECK(decoded.pixels == frames_of_stb(file)[0]);
  }
}

TEST_CASE("large GIFs fill the table and clear it") {
  test::Random random(6);
  GifPart part{.width = 300, .height = 200};
  part.indices = random.bytes(60000);
  const Bytes file = make_gif(300, 200, any_palette(random, 256), {part}, /*has_trailer=*/false);
  const DecodedFile decoded = decode_file(file);
  REQUIRE(decoded.code == Code::kOk);
  CHECK(decoded.facts.whole_pixels == 0);
  CHECK(decoded.facts.rows_scratch_bytes < 30'000);
  CHECK(decoded.pixels == frames_of_stb(file)[0]);
}

TEST_CASE("frames are drawn over one another as stb_image does, and taken away as they ask for") {
  test::Random random(7);
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    const int width = 24, height = 18, colors = 8;
    std::vector<GifPart> parts;
    for (int i = 0; i < 5; ++i) {
      parts.push_back(any_part(random, width, height, colors));
      parts.back().disposal = static_cast<int>(random.integer(0, 1));
      parts.back().hundredths = 7;
    }
    const Bytes file = make_gif(width, height, any_palette(random, colors), parts);
    CHECK(frames_of_ours(file) == frames_of_stb(file));
    CHECK(decode_file(file).facts.hundredths == 35);
  }
  // Cleared and undone, by hand: of stb_image's frames the latter are others than its own specification says.
  const Bytes palette = {10, 0, 0, 0, 20, 0, 0, 0, 30, 40, 40, 40};
  const auto spot = [](int left, uint8_t index, int disposal) {
    return GifPart{.left = left, .indices = {index}, .disposal = disposal};
  };
  const Bytes file =
      make_gif(3, 1, palette, {spot(0, 0, 1), spot(1, 1, 2), spot(0, 2, 3), spot(2, 3, 1), spot(2, 0, 0)});
  const std::vector<Bytes> frames = frames_of_ours(file);
  REQUIRE(frames.size() == 5);
  CHECK(frames[0] == Bytes{10, 0, 0, 255, 255, 255, 255, 255, 255});
  CHECK(frames[1] == Bytes{10, 0, 0, 0, 20, 0, 255, 255, 255});
  CHECK(frames[2] == Bytes{0, 0, 30, 255, 255, 255, 255, 255, 255});
  CHECK(frames[3] == Bytes{10, 0, 0, 255, 255, 255, 40, 40, 40});
  CHECK(frames[4] == Bytes{10, 0, 0, 255, 255, 255, 10, 0, 0});
}

TEST_CASE("palettes of frames, and colours that they lack") {
  const Bytes own = {1, 2, 3, 4, 5, 6};
  const Bytes file = make_gif(2, 1, {}, {{.width = 2, .indices = {1, 3}, .palette = own}});
  CHECK(decode_file(file).pixels == Bytes{4, 5, 6, 0, 0, 0});
}

TEST_CASE("GIFs that are cut or damaged are refused in one sentence") {
  test::Random random(8);
  const Bytes palette = any_palette(random, 8);
  const Bytes file = make_gif(20, 20, palette, {{.width = 20, .height = 20, .indices = any_indices(random, 400, 8)}});
  for (size_t cut = 6; cut + 1 < file.size(); ++cut) {
    CAPTURE(cut);
    CHECK(decode_file(Bytes(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(cut))).code == Code::kBadImage);
    CHECK(failure_says("GIF"));
  }
  CHECK(decode_file(make_gif(20, 20, palette, {})).code == Code::kBadImage);
  CHECK(failure_says("no frame"));
  CHECK(decode_file(make_gif(20, 20, {}, {{.indices = {0}}})).code == Code::kBadImage);
  CHECK(failure_says("without a palette"));
  CHECK(decode_file(make_gif(20, 20, palette, {{.left = 20, .indices = {0}}})).code == Code::kBadImage);
  CHECK(failure_says("outside its 20 x 20"));
  CHECK(decode_file(make_gif(20, 20, palette, {{.width = 20, .height = 20, .indices = {0}}})).code == Code::kBadImage);
  CHECK(failure_says("end before its picture"));
  CHECK(decode_file(make_gif(20000, 1, palette, {{.indices = {0}}})).code == Code::kBadImage);
  int decoded = 0;
  for (int round = 0; round < 3000; ++round) {
    Bytes changed = file;
    changed[static_cast<size_t>(random.integer(6, static_cast<int64_t>(file.size()) - 1))] =
        static_cast<uint8_t>(random.integer(0, 255));
    decoded += decode_file(changed).code == Code::kOk;
  }
  CHECK(decoded > 300);
  CHECK(decoded < 2900);
}

TEST_CASE("codes that stand for more than the picture cost no more than it") {
  GifPart part{.width = 4, .height = 4, .indices = Bytes(3'000'000, 0)};
  const Bytes file = make_gif(4, 4, {0, 0, 0, 9, 9, 9}, {part});
  const auto start = std::chrono::steady_clock::now();
  CHECK(decode_file(file).code == Code::kOk);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
}
