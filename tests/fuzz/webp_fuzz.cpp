// WebP files: chunks with right lengths in any order, headers that agree with their picture or do not, streams of
// libwebp's encoder and of our own with changes inside.
#include <cstring>
#include <string>

#include "tests/fuzz/byte_changes.h"
#include "tests/fuzz/picture_seeds.h"
#include "tests/support/exif.h"
#include "tests/support/webp_files.h"

namespace ocellus::fuzz {
namespace {

using testing::WebpChunk;
using testing::WebpRecipe;

constexpr const char* kTypes[] = {"VP8 ", "VP8L", "VP8X", "ALPH", "EXIF", "ICCP", "XMP ", "ANIM", "ANMF", "xxxx"};

WebpRecipe any_recipe(Random& random) {
  WebpRecipe recipe;
  recipe.lossless = once_in(2, random);
  recipe.quality = static_cast<float>(random.integer(0, 100));
  recipe.method = static_cast<int>(random.integer(0, 4));
  recipe.filter_strength = static_cast<int>(random.integer(0, 100));
  recipe.partitions = static_cast<int>(random.integer(0, 3));
  recipe.alpha_compression = static_cast<int>(random.integer(0, 1));
  recipe.alpha_filtering = static_cast<int>(random.integer(0, 2));
  recipe.near_lossless = once_in(4, random) ? 40 : 100;
  return recipe;
}

/// Noise, few colours or gradients, so that the encoder takes each of its ways.
Bytes any_picture(Random& random) {
  const auto width = static_cast<int>(random.integer(1, 40)), height = static_cast<int>(random.integer(1, 40));
  const bool has_alpha = once_in(2, random);
  const auto kind = random.integer(0, 2);
  const auto colors = static_cast<size_t>(random.integer(1, 40)), step = static_cast<size_t>(random.integer(1, 9));
  Bytes pixels(static_cast<size_t>(width) * static_cast<size_t>(height) * (has_alpha ? 4 : 3));
  for (size_t i = 0; i < pixels.size(); ++i) {
    const size_t value = kind == 0 ? random.bits() : kind == 1 ? i / step % colors * 37 : i * step / 5;
    pixels[i] = static_cast<uint8_t>(value);
  }
  return testing::encode_webp(pixels, width, height, has_alpha, any_recipe(random));
}

std::vector<Bytes> make_seeds() {
  Random random(3);
  std::vector<Bytes> seeds;
  while (seeds.size() < 24) seeds.push_back(any_picture(random));
  seeds.push_back(testing::lossless_webp(random.bytes(4 * 9 * 7), 9, 7, true));
  seeds.push_back(testing::greedy_webp(24, 20));
  seeds.push_back(testing::greedy_webp(64, 60));
  return seeds;
}

WebpChunk* find_chunk(std::vector<WebpChunk>& chunks, const char* type) {
  for (WebpChunk& chunk : chunks)
    if (chunk.type == type) return &chunk;
  return nullptr;
}

WebpChunk* find_picture(std::vector<WebpChunk>& chunks) {
  WebpChunk* const lossy = find_chunk(chunks, "VP8 ");
  return lossy != nullptr ? lossy : find_chunk(chunks, "VP8L");
}

/// The size of a VP8 or VP8L chunk, or of a VP8X, as its own bits have it.
void change_size(WebpChunk& chunk, Random& random) {
  const uint64_t side = once_in(4, random) ? odd_number(random) : static_cast<uint64_t>(random.integer(0, 70));
  const size_t at = chunk.type == "VP8 " ? 6 : chunk.type == "VP8X" ? 4 : 1;
  const size_t count = chunk.type == "VP8X" ? 3 : 2;
  const size_t begin = at + (once_in(2, random) ? count : 0);
  for (size_t i = 0; i < count && begin + i < chunk.body.size(); ++i)
    chunk.body[begin + i] = static_cast<uint8_t>(side >> (8 * i));
}

/// Announces the picture, with its own size or nearly so.
void add_header(std::vector<WebpChunk>& chunks, Random& random) {
  if (find_chunk(chunks, "VP8X") != nullptr) return;
  int width = 1, height = 1;
  if (const WebpChunk* picture = find_picture(chunks); picture != nullptr && picture->body.size() >= 10) {
    const Bytes& body = picture->body;
    const bool is_lossy = picture->type == "VP8 ";
    const uint32_t bits = body[1] | uint32_t{body[2]} << 8 | uint32_t{body[3]} << 16 | uint32_t{body[4]} << 24;
    width = is_lossy ? (body[6] | body[7] << 8) & 0x3FFF : static_cast<int>(1 + (bits & 0x3FFF));
    height = is_lossy ? (body[8] | body[9] << 8) & 0x3FFF : static_cast<int>(1 + (bits >> 14 & 0x3FFF));
  }
  if (once_in(8, random)) width += 1;
  const int flags = once_in(4, random) ? static_cast<int>(random.integer(0, 255)) : testing::kWebpExif;
  const Bytes header = testing::webp_header(flags, std::max(width, 1), std::max(height, 1));
  chunks.insert(chunks.begin(), {"VP8X", Bytes(header.begin() + 8, header.end())});
}

void insert_chunk(std::vector<WebpChunk>& chunks, Random& random) {
  const char* type = pick(kTypes, random);
  const bool is_exif = std::strcmp(type, "EXIF") == 0;
  const WebpChunk chunk = {
      type, is_exif ? testing::exif(static_cast<int>(random.integer(0, 9))) : random.bytes(random.integer(0, 40))};
  chunks.insert(chunks.begin() + static_cast<std::ptrdiff_t>(pick_index(chunks.size() + 1, random)), chunk);
}

/// A few bits near the front, where headers, transforms and codes are, or anywhere.
void change_bits(Bytes& body, Random& random) {
  if (body.empty()) return;
  const size_t range = once_in(2, random) ? std::min<size_t>(body.size(), 60) : body.size();
  for (int64_t i = random.integer(1, 4); i > 0; --i) {
    uint8_t& byte = body[pick_index(range, random)];
    byte = static_cast<uint8_t>(byte ^ 1u << random.integer(0, 7));
  }
}

void change_webp(Bytes& input, Random& random) {
  if (once_in(12, random)) {
    input = any_picture(random);
    if (once_in(2, random)) return;
  }
  std::vector<WebpChunk> chunks = testing::read_webp(input);
  if (chunks.empty() || once_in(16, random)) return change_bytes(input, random);
  switch (random.integer(0, 9)) {
    case 0: change_order(chunks, random); break;
    case 1: pick(chunks, random).type = pick(kTypes, random); break;
    case 2: insert_chunk(chunks, random); break;
    case 3: add_header(chunks, random); break;
    case 4: change_size(pick(chunks, random), random); break;
    case 5: change_bytes(pick(chunks, random).body, random); break;
    default: change_bits(pick(chunks, random).body, random);
  }
  std::vector<Bytes> parts;
  for (const WebpChunk& chunk : chunks) parts.push_back(testing::webp_chunk(chunk.type, chunk.body));
  input = testing::make_webp(parts);
  if (once_in(16, random)) {  // a length that lies
    const size_t at = once_in(2, random) ? 4 : 16;
    const uint64_t length = odd_number(random);
    for (size_t i = 0; i < 4 && at + i < input.size(); ++i) input[at + i] = static_cast<uint8_t>(length >> (8 * i));
  }
}

const Registration kRegistered({.name = "webp",
                                .make_seeds = make_seeds,
                                .mutate = change_webp,
                                .run = decode_picture,
                                .most_heap_bytes = int64_t{1} << 20});

}  // namespace
}  // namespace ocellus::fuzz
