// GIF files, packed as GIF does: codes grow with the table, which is cleared when it is full.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/support/crafted_pictures.h"

namespace ocellus::testing {

struct GifPart {
  int left = 0, top = 0, width = 1, height = 1;
  Bytes indices = {};  // rows from the top, whether interlaced or not
  bool interlaced = false;
  int disposal = 0, hundredths = 0, transparent = -1;
  Bytes palette = {};  // of its own
};

inline void append_le16(Bytes& out, int value) {
  out.push_back(static_cast<uint8_t>(value & 255));
  out.push_back(static_cast<uint8_t>(value >> 8));
}

/// Codes in blocks of at most `block` bytes.
inline Bytes pack_gif_codes(const Bytes& indices, int bits, size_t block = 255) {
  Bytes packed;
  uint32_t held = 0;
  int held_bits = 0, width = bits + 1;
  const int clear = 1 << bits;
  const auto put = [&](int code) {
    held |= static_cast<uint32_t>(code) << held_bits;
    for (held_bits += width; held_bits >= 8; held_bits -= 8, held >>= 8) packed.push_back(static_cast<uint8_t>(held));
  };
  std::map<std::string, int> table;
  const auto start = [&] {
    put(clear);
    table.clear();
    for (int i = 0; i < clear; ++i) table[std::string(1, static_cast<char>(i))] = i;
    width = bits + 1;
  };
  start();
  int next = clear + 2;
  std::string run;
  for (const uint8_t index : indices) {
    const std::string longer = run + static_cast<char>(index);
    if (table.count(longer) != 0) {
      run = longer;
      continue;
    }
    put(table[run]);
    if (next < 4096) {
      if (next == 1 << width) ++width;
      table[longer] = next++;
    } else {
      start();
      next = clear + 2;
    }
    run = std::string(1, static_cast<char>(index));
  }
  put(table[run]);
  if (next == 1 << width && width < 12) ++width;
  put(clear + 1);
  if (held_bits > 0) packed.push_back(static_cast<uint8_t>(held));
  Bytes out;
  for (size_t at = 0; at < packed.size(); at += block) {
    const size_t count = std::min(block, packed.size() - at);
    out.push_back(static_cast<uint8_t>(count));
    out.insert(out.end(), packed.begin() + static_cast<std::ptrdiff_t>(at),
               packed.begin() + static_cast<std::ptrdiff_t>(at + count));
  }
  out.push_back(0);
  return out;
}

inline int gif_palette_bits(const Bytes& palette) {
  int bits = 1;
  while (size_t{3} << bits < palette.size()) ++bits;
  return bits;
}

inline void append_gif_palette(Bytes& out, Bytes palette) {
  palette.resize(size_t{3} << gif_palette_bits(palette));
  append(out, palette);
}

/// `palette`: colours of three bytes, for parts that have none of their own.
inline Bytes make_gif(int width, int height, const Bytes& palette, const std::vector<GifPart>& parts,
                      bool has_trailer = true) {
  Bytes out = {'G', 'I', 'F', '8', '9', 'a'};
  append_le16(out, width);
  append_le16(out, height);
  append(out, {static_cast<uint8_t>(palette.empty() ? 0 : 0x80 | (gif_palette_bits(palette) - 1)), 0, 0});
  if (!palette.empty()) append_gif_palette(out, palette);
  append(out, {0x21, 0xFE, 2, 'h', 'i', 0});  // a comment
  for (const GifPart& part : parts) {
    append(out, {0x21, 0xF9, 4, static_cast<uint8_t>(part.disposal << 2 | (part.transparent >= 0 ? 1 : 0))});
    append_le16(out, part.hundredths);
    append(out, {static_cast<uint8_t>(part.transparent < 0 ? 0 : part.transparent), 0, 0x2C});
    for (const int value : {part.left, part.top, part.width, part.height}) append_le16(out, value);
    const int bits = gif_palette_bits(part.palette.empty() ? palette : part.palette);
    out.push_back(static_cast<uint8_t>((part.palette.empty() ? 0 : 0x80 | (bits - 1)) | (part.interlaced ? 0x40 : 0)));
    if (!part.palette.empty()) append_gif_palette(out, part.palette);
    const int code_bits = std::max(bits, 2);
    out.push_back(static_cast<uint8_t>(code_bits));
    Bytes rows = part.indices;
    if (part.interlaced) {
      rows.clear();
      for (const auto& [first, step] : {std::pair{0, 8}, {4, 8}, {2, 4}, {1, 2}})
        for (int y = first; y < part.height; y += step)
          rows.insert(rows.end(), part.indices.begin() + y * part.width, part.indices.begin() + (y + 1) * part.width);
    }
    append(out, pack_gif_codes(rows, code_bits, part.interlaced ? 7 : 255));
  }
  if (has_trailer) out.push_back(0x3B);
  return out;
}

inline Bytes make_interlaced_gif() {
  GifPart part = {.left = 3, .top = 5, .width = 200, .height = 90, .interlaced = true};
  for (int i = 0; i < part.width * part.height; ++i) part.indices.push_back(static_cast<uint8_t>(i % 7 % 4));
  return make_gif(220, 100, {0, 0, 0, 200, 0, 0, 0, 200, 0, 0, 0, 200}, {part});
}

}  // namespace ocellus::testing
