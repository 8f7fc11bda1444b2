// PNG files: chunks with right lengths and checksums around anything, image data that inflate to anything.
#include <array>
#include <cstring>
#include <string>

#include "tests/fuzz/byte_changes.h"
#include "tests/fuzz/picture_seeds.h"
#include "tests/fuzz/zlib_writer.h"
#include "tests/support/crafted_pictures.h"

namespace ocellus::fuzz {
namespace {

constexpr size_t kSignatureBytes = 8;
constexpr size_t kChunkFrame = 12;  // length, type, checksum
constexpr size_t kHeaderBytes = 13;
constexpr size_t kMaxRowBytes = size_t{1} << 15;  // of all rows of data that are made anew
constexpr const char* kTypes[] = {"IHDR", "PLTE", "tRNS", "IDAT", "IEND", "acTL", "fcTL", "fdAT", "gAMA",
                                  "sRGB", "iCCP", "eXIf", "tEXt", "zTXt", "bKGD", "CgBI", "xxxx", "XXXX"};

struct Chunk {
  std::string type;
  Bytes body;
};

uint32_t read_be(const uint8_t* at) {
  return uint32_t{at[0]} << 24 | uint32_t{at[1]} << 16 | uint32_t{at[2]} << 8 | uint32_t{at[3]};
}

std::vector<Chunk> read_chunks(const Bytes& file) {
  std::vector<Chunk> chunks;
  size_t at = kSignatureBytes;
  while (at + kChunkFrame <= file.size()) {
    const size_t length = std::min<size_t>(read_be(&file[at]), file.size() - at - kChunkFrame);
    const auto begin = file.begin() + static_cast<std::ptrdiff_t>(at + 8);
    chunks.push_back({std::string(begin - 4, begin), Bytes(begin, begin + static_cast<std::ptrdiff_t>(length))});
    at += kChunkFrame + length;
  }
  return chunks;
}

uint32_t checksum(const uint8_t* bytes, size_t count) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> entries;
    for (uint32_t i = 0; i < 256; ++i) {
      entries[i] = i;
      for (int bit = 0; bit < 8; ++bit) entries[i] = entries[i] >> 1 ^ (entries[i] % 2 != 0 ? 0xEDB88320u : 0);
    }
    return entries;
  }();
  uint32_t sum = ~uint32_t{0};
  for (size_t i = 0; i < count; ++i) sum = sum >> 8 ^ table[(sum ^ bytes[i]) & 255];
  return ~sum;
}

Bytes write_chunks(const std::vector<Chunk>& chunks, size_t forged, uint32_t forged_length) {
  Bytes file = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  for (size_t i = 0; i < chunks.size(); ++i) {
    const Bytes& body = chunks[i].body;
    testing::append_be(file, i == forged ? forged_length : static_cast<uint32_t>(body.size()), 4);
    const size_t begin = file.size();
    file.insert(file.end(), chunks[i].type.begin(), chunks[i].type.end());
    file.insert(file.end(), body.begin(), body.end());
    testing::append_be(file, checksum(&file[begin], file.size() - begin), 4);
  }
  return file;
}

Chunk* find_chunk(std::vector<Chunk>& chunks, const char* type) {
  for (Chunk& chunk : chunks)
    if (chunk.type == type) return &chunk;
  return nullptr;
}

void set_be(Bytes& bytes, size_t at, uint32_t value) {
  for (size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<uint8_t>(value >> (24 - 8 * i));
}

void change_header(Bytes& header, Random& random) {
  header.resize(kHeaderBytes);
  constexpr uint8_t kDepths[] = {1, 2, 4, 8, 16, 0, 3, 32};
  constexpr uint8_t kColors[] = {0, 2, 3, 4, 6, 1, 7, 255};
  constexpr uint8_t kSound[][2] = {{1, 0}, {2, 0}, {4, 0}, {8, 0}, {16, 0}, {8, 2}, {16, 2}, {1, 3},
                                   {2, 3}, {4, 3}, {8, 3}, {8, 4}, {16, 4}, {8, 6}, {16, 6}};
  switch (random.integer(0, 5)) {
    case 0:
    case 1: {
      const uint32_t side =
          once_in(4, random) ? static_cast<uint32_t>(odd_number(random)) : static_cast<uint32_t>(random.integer(1, 64));
      set_be(header, once_in(2, random) ? 0 : 4, side);
      break;
    }
    case 2: {
      const uint8_t(&sound)[2] = pick(kSound, random);
      header[8] = once_in(8, random) ? pick(kDepths, random) : sound[0];
      header[9] = once_in(8, random) ? pick(kColors, random) : sound[1];
      break;
    }
    case 3:
    case 4: header[12] = static_cast<uint8_t>(once_in(8, random) ? 2 : random.integer(0, 1)); break;
    default: header[10 + pick_index(2, random)] = static_cast<uint8_t>(random.integer(0, 2));
  }
}

// Rows as the header wants them, a few too many or too few, with filters and any samples.
Bytes make_rows(const Bytes& header, Random& random) {
  const size_t width = read_be(&header[0]), height = read_be(&header[4]);
  const size_t samples = header[9] == 2 ? 3 : header[9] == 4 ? 2 : header[9] == 6 ? 4 : 1;
  const size_t bits = width % kMaxRowBytes * samples * (header[8] == 0 ? 1 : header[8]);
  const size_t row_bytes = std::min((bits + 7) / 8 + 1, kMaxRowBytes);
  size_t rows = std::min(height, kMaxRowBytes / row_bytes);
  if (header[12] != 0) rows += rows / 2 + 7;  // interlaced: more and shorter ones
  if (once_in(8, random)) rows += static_cast<size_t>(random.integer(0, 2));
  Bytes data;
  const bool is_noise = once_in(2, random);
  const bool has_odd_filters = once_in(8, random);
  for (size_t row = 0; row < rows; ++row) {
    data.push_back(static_cast<uint8_t>(random.integer(0, has_odd_filters ? 8 : 4)));
    for (size_t i = 1; i < row_bytes; ++i) data.push_back(static_cast<uint8_t>(is_noise ? random.bits() : row));
  }
  if (once_in(16, random) && !data.empty()) data.resize(pick_index(data.size(), random));
  return data;
}

void renew_data(std::vector<Chunk>& chunks, Random& random) {
  const Chunk* header = find_chunk(chunks, "IHDR");
  if (header == nullptr || header->body.size() < kHeaderBytes) return;
  Bytes stream = write_zlib(make_rows(header->body, random), random);
  if (once_in(8, random)) change_bytes(stream, random);
  std::vector<Chunk> kept;
  bool is_placed = false;
  for (const Chunk& chunk : chunks) {
    if (chunk.type != "IDAT") {
      kept.push_back(chunk);
      continue;
    }
    while (!is_placed && !stream.empty()) {  // in one piece or many
      const size_t count = once_in(2, random) ? stream.size() : pick_index(stream.size(), random) + 1;
      const auto end = stream.begin() + static_cast<std::ptrdiff_t>(count);
      kept.push_back({"IDAT", Bytes(stream.begin(), end)});
      stream.erase(stream.begin(), end);
    }
    is_placed = true;
  }
  chunks = std::move(kept);
}

void insert_chunk(std::vector<Chunk>& chunks, Random& random) {
  constexpr int64_t kSizes[] = {0, 1, 2, 3, 4, 6, 8, 13, 26, 48, 255, 256, 768, 771};
  const Chunk chunk = {pick(kTypes, random), random.bytes(pick(kSizes, random))};
  const size_t at = once_in(2, random) ? std::min<size_t>(1, chunks.size()) : pick_index(chunks.size() + 1, random);
  chunks.insert(chunks.begin() + static_cast<std::ptrdiff_t>(at), chunk);
}

void change_png(Bytes& input, Random& random) {
  std::vector<Chunk> chunks = read_chunks(input);
  if (chunks.empty()) return change_bytes(input, random);
  size_t forged = chunks.size() + 1;
  uint32_t forged_length = 0;
  switch (random.integer(0, 11)) {
    case 0: change_order(chunks, random); break;
    case 1: pick(chunks, random).type = pick(kTypes, random); break;
    case 2: insert_chunk(chunks, random); break;
    case 3:
      forged = pick_index(chunks.size(), random);
      forged_length = static_cast<uint32_t>(odd_number(random));
      break;
    case 4:
    case 5:
      if (Chunk* header = find_chunk(chunks, "IHDR")) change_header(header->body, random);
      if (!once_in(4, random)) renew_data(chunks, random);
      break;
    case 6: change_bytes(pick(chunks, random).body, random); break;
    case 7:
    case 8:
      if (Chunk* data = find_chunk(chunks, "IDAT")) change_bytes(data->body, random);
      break;
    default: renew_data(chunks, random);
  }
  input = write_chunks(chunks, forged, forged_length);
}

const Registration kRegistered({.name = "png",
                                .make_seeds = make_png_seeds,
                                .mutate = change_png,
                                .run = decode_picture,
                                .most_heap_bytes = int64_t{1} << 20});

}  // namespace
}  // namespace ocellus::fuzz
