// WebP files: chunks put together by hand, lossless pictures written bit by bit, and whatever libwebp's encoder makes.
#pragma once

#include <string>
#include <vector>

#include "tests/support/crafted_pictures.h"

namespace ocellus::testing {

inline void append_le(Bytes& out, uint32_t value, int count) {
  for (int i = 0; i < count; ++i) out.push_back(static_cast<uint8_t>(value >> (8 * i)));
}

inline Bytes webp_chunk(const std::string& type, const Bytes& body) {
  Bytes out(type.begin(), type.end());
  append_le(out, static_cast<uint32_t>(body.size()), 4);
  append(out, body);
  if (body.size() % 2 != 0) out.push_back(0);
  return out;
}

inline Bytes make_webp(const std::vector<Bytes>& chunks) {
  Bytes body = {'W', 'E', 'B', 'P'};
  for (const Bytes& chunk : chunks) append(body, chunk);
  Bytes out = {'R', 'I', 'F', 'F'};
  append_le(out, static_cast<uint32_t>(body.size()), 4);
  append(out, body);
  return out;
}

enum WebpFlags { kWebpAnimated = 2, kWebpXmp = 4, kWebpExif = 8, kWebpAlpha = 16, kWebpIcc = 32 };

/// The header of a file with more than a picture.
inline Bytes webp_header(int flags, int width, int height) {
  Bytes body = {static_cast<uint8_t>(flags), 0, 0, 0};
  append_le(body, static_cast<uint32_t>(width - 1), 3);
  append_le(body, static_cast<uint32_t>(height - 1), 3);
  return webp_chunk("VP8X", body);
}

struct WebpChunk {
  std::string type;
  Bytes body;
};

/// The chunks of a file; of a damaged one as many as can be told apart.
inline std::vector<WebpChunk> read_webp(const Bytes& file) {
  std::vector<WebpChunk> chunks;
  size_t at = 12;
  while (at + 8 <= file.size()) {
    size_t length = 0;
    for (size_t i = 4; i-- > 0;) length = length << 8 | file[at + 4 + i];
    const size_t end = at + 8 + std::min(length, file.size() - at - 8);
    const auto begin = file.begin() + static_cast<std::ptrdiff_t>(at);
    chunks.push_back(
        {std::string(begin, begin + 4), Bytes(begin + 8, file.begin() + static_cast<std::ptrdiff_t>(end))});
    at = end + length % 2;
  }
  return chunks;
}

/// Writes a "VP8L" chunk's body: bits, the lowest first.
class LosslessWriter {
 public:
  LosslessWriter(int width, int height, bool has_alpha) {
    bytes_.push_back(0x2F);
    put(static_cast<uint32_t>(width - 1), 14);
    put(static_cast<uint32_t>(height - 1), 14);
    put(has_alpha ? 1 : 0, 4);  // and version 0
  }

  void put(uint32_t value, int count) {
    for (int i = 0; i < count; ++i, ++bits_) {
      if (bits_ % 8 == 0) bytes_.push_back(0);
      bytes_.back() = static_cast<uint8_t>(bytes_.back() | (value >> i & 1) << (bits_ % 8));
    }
  }

  /// A code in which every literal has eight bits, of an alphabet of 256 or, with lengths of copies, 280.
  void put_flat_code(int alphabet) {
    put(0, 1);
    put(12 - 4, 4);  // lengths of codes for lengths: of "18", many zeros, and of "8" one bit each
    for (const int length : {0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}) put(static_cast<uint32_t>(length), 3);
    put(0, 1);
    for (int i = 0; i < 256; ++i) put(0, 1);
    if (alphabet <= 256) return;
    put(1, 1);
    put(static_cast<uint32_t>(alphabet - 256 - 11), 7);
  }

  /// A code of one symbol, which takes no bits.
  void put_single_code(bool symbol) {
    put(1, 1);
    put(0, 2);  // one symbol, of one bit
    put(symbol ? 1 : 0, 1);
  }

  void put_literal(uint8_t value) {
    for (int bit = 7; bit >= 0; --bit) put(value >> bit & 1u, 1);
  }

  const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
  size_t bits_ = 0;  // bits after the first byte
};

/// RGBA8 as a lossless file without any compression.
inline Bytes lossless_webp(const Bytes& rgba, int width, int height, bool has_alpha) {
  LosslessWriter out(width, height, has_alpha);
  out.put(0, 3);  // no transform, no colour cache, one group of codes
  out.put_flat_code(280);
  for (int i = 0; i < 3; ++i) out.put_flat_code(256);
  out.put_single_code(false);
  for (size_t i = 0; i < rgba.size(); i += 4) {
    for (const size_t c : {1, 0, 2, 3}) out.put_literal(rgba[i + c]);
  }
  return make_webp({webp_chunk("VP8L", out.bytes())});
}

/// A picture of one colour that asks for a group of codes, some kB of tables, for every 4 x 4 pixels.
inline Bytes greedy_webp(int width, int height) {
  LosslessWriter out(width, height, false);
  out.put(0, 2);  // no transform, no colour cache
  out.put(1, 1);
  out.put(0, 3);  // groups for squares of 4 x 4
  const int groups = (width + 3) / 4 * ((height + 3) / 4);
  out.put(0, 1);  // the picture of their numbers has no colour cache
  out.put_flat_code(280);
  out.put_flat_code(256);
  for (int i = 0; i < 3; ++i) out.put_single_code(false);
  for (int i = 0; i < groups; ++i) {
    out.put_literal(static_cast<uint8_t>(i));
    out.put_literal(static_cast<uint8_t>(i >> 8));
  }
  for (int i = 0; i < 5 * groups; ++i) out.put_single_code(false);
  return make_webp({webp_chunk("VP8L", out.bytes())});
}

/// Settings of libwebp's encoder.
struct WebpRecipe {
  bool lossless = false;
  float quality = 75;
  int method = 4;
  int filter_strength = 60;
  int partitions = 0;         // 2 to the power of it
  int alpha_compression = 1;  // 0: raw
  int alpha_filtering = 1;
  int near_lossless = 100;
};

/// RGBA8, or RGB8 without alpha, by libwebp's encoder; tests that call it link tests/support/webp_files.cpp.
Bytes encode_webp(const Bytes& pixels, int width, int height, bool has_alpha, const WebpRecipe& recipe);

/// libwebp's own decoding of the file, RGB8, alpha on white; empty if it refuses.
Bytes decode_by_libwebp(const Bytes& file);

}  // namespace ocellus::testing
