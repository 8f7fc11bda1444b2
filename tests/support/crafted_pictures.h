// JPEG and PNG files built byte by byte, sound ones of any size and layout and broken ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ocellus::testing {

using Bytes = std::vector<uint8_t>;

inline void append(Bytes& out, const Bytes& more) { out.insert(out.end(), more.begin(), more.end()); }
inline void append_be(Bytes& out, uint32_t value, int count) {
  for (int i = count - 1; i >= 0; --i) out.push_back(static_cast<uint8_t>(value >> (8 * i)));
}

inline Bytes jpeg_segment(int marker, const Bytes& body) {
  Bytes out;
  out.reserve(4 + body.size());
  append_be(out, 0xFF00u | static_cast<uint32_t>(marker), 2);
  append_be(out, static_cast<uint32_t>(body.size() + 2), 2);
  append(out, body);
  return out;
}

/// A flat JPEG: every sample is 128. One Huffman code, "0", stands for "no difference" and for "end of block".
struct JpegRecipe {
  int width = 16, height = 16;
  std::vector<int> sampling = {0x11, 0x11, 0x11};  // horizontal << 4 | vertical, one a component
  int frame_marker = 0xC0;                         // 0xC2: progressive, with only a DC scan
  int adobe_transform = -1;
  bool quantisation = true, huffman = true, frame = true, scan = true, end = true;
  int scans = 1;
};

inline Bytes make_jpeg(const JpegRecipe& recipe) {
  Bytes out = {0xFF, 0xD8};
  if (recipe.adobe_transform >= 0) {
    append(out, jpeg_segment(
                    0xEE, {'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, static_cast<uint8_t>(recipe.adobe_transform)}));
  }
  Bytes table(65, 1);
  table[0] = 0;
  if (recipe.quantisation) append(out, jpeg_segment(0xDB, table));
  if (recipe.huffman) {
    for (int kind : {0x00, 0x10}) {
      Bytes huffman(18, 0);
      huffman[0] = static_cast<uint8_t>(kind);
      huffman[1] = 1;
      append(out, jpeg_segment(0xC4, huffman));
    }
  }
  const auto count = static_cast<int>(recipe.sampling.size());
  Bytes frame = {8};
  append_be(frame, static_cast<uint32_t>(recipe.height), 2);
  append_be(frame, static_cast<uint32_t>(recipe.width), 2);
  frame.push_back(static_cast<uint8_t>(count));
  Bytes scan = {static_cast<uint8_t>(count)};
  int blocks = 0;
  for (int i = 0; i < count; ++i) {
    append(frame, {static_cast<uint8_t>(i + 1), static_cast<uint8_t>(recipe.sampling[static_cast<size_t>(i)]), 0});
    append(scan, {static_cast<uint8_t>(i + 1), 0});
    blocks += (recipe.sampling[static_cast<size_t>(i)] >> 4) * (recipe.sampling[static_cast<size_t>(i)] & 15);
  }
  const bool progressive = recipe.frame_marker == 0xC2;
  append(scan, {0, static_cast<uint8_t>(progressive ? 0 : 63), 0});
  if (recipe.frame) append(out, jpeg_segment(recipe.frame_marker, frame));
  const int64_t units = (recipe.width / 8 + 1) * int64_t{recipe.height / 8 + 1};
  for (int i = 0; i < recipe.scans && recipe.scan; ++i) {
    append(out, jpeg_segment(0xDA, scan));
    out.insert(out.end(), static_cast<size_t>(units * blocks / 4 + 16), 0);
  }
  if (recipe.end) append(out, {0xFF, 0xD9});
  return out;
}

/// A zlib stream of stored blocks.
inline Bytes store_zlib(const Bytes& data) {
  Bytes out = {0x78, 0x01};
  size_t at = 0;
  do {
    const size_t count = std::min<size_t>(65535, data.size() - at);
    out.push_back(at + count == data.size() ? 1 : 0);
    append(out, {static_cast<uint8_t>(count), static_cast<uint8_t>(count >> 8), static_cast<uint8_t>(~count),
                 static_cast<uint8_t>(~count >> 8)});
    out.insert(out.end(), data.begin() + static_cast<int64_t>(at), data.begin() + static_cast<int64_t>(at + count));
    at += count;
  } while (at < data.size());
  append(out, {0, 0, 0, 0});  // the checksum, which is not read
  return out;
}

inline Bytes png_chunk(const std::string& type, const Bytes& body) {
  Bytes out;
  append_be(out, static_cast<uint32_t>(body.size()), 4);
  append(out, Bytes(type.begin(), type.end()));
  append(out, body);
  append_be(out, 0xBADC0DE, 4);
  return out;
}

inline Bytes png_header(uint32_t width, uint32_t height, int depth, int color, int interlace = 0) {
  Bytes body;
  append_be(body, width, 4);
  append_be(body, height, 4);
  append(body, {static_cast<uint8_t>(depth), static_cast<uint8_t>(color), 0, 0, static_cast<uint8_t>(interlace)});
  return png_chunk("IHDR", body);
}

inline Bytes make_png(const std::vector<Bytes>& chunks) {
  Bytes out = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  for (const Bytes& chunk : chunks) append(out, chunk);
  return out;
}

}  // namespace ocellus::testing
