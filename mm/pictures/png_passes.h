// Iteration over a PNG's chunks, and over the passes of an interlaced picture.
#pragma once

#include <cstdint>
#include <cstring>

#include "mm/pictures/png_image.h"
#include "platform/round_up.h"
#include "platform/status.h"

namespace ocellus {

inline uint32_t read_be32(const uint8_t* p) {
  return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | uint32_t{p[3]};
}

inline constexpr int64_t kPngSignatureBytes = 8;

struct PngChunk {
  const uint8_t* type = nullptr;  // four letters
  const uint8_t* data = nullptr;
  int64_t bytes = 0;
  bool is(const char* name) const { return std::memcmp(type, name, 4) == 0; }
  bool is_critical() const { return (type[0] & 0x20) == 0; }
};

class PngChunks {
 public:
  PngChunks(const uint8_t* bytes, int64_t size_bytes) : cursor_(bytes + kPngSignatureBytes), end_(bytes + size_bytes) {}

  /// Reads the next chunk, wholly inside the file.
  Status next(PngChunk* chunk) {
    constexpr int64_t kOverhead = 12;  // length, type, checksum
    if (end_ - cursor_ < kOverhead || end_ - cursor_ - kOverhead < read_be32(cursor_)) {
      return OCELLUS_FAIL(Code::kBadImage, "the PNG ends before its end chunk: the file is truncated or damaged");
    }
    *chunk = {cursor_ + 4, cursor_ + 8, read_be32(cursor_)};
    cursor_ += kOverhead + chunk->bytes;
    return {};
  }

 private:
  const uint8_t* cursor_;
  const uint8_t* end_;
};

/// One pass: its pixel (x, y) is pixel (left + x * across, top + y * down) of the picture.
struct PngPass {
  int32_t left, top, across, down;
  int32_t width, height;  // 0 x 0 if the picture is too small for the pass
};

inline int pass_count(const PngFacts& facts) { return facts.interlaced ? 7 : 1; }

inline PngPass png_pass(const PngFacts& facts, int pass) {
  static constexpr PngPass kAdam7[7] = {{0, 0, 8, 8, 0, 0}, {4, 0, 8, 8, 0, 0}, {0, 4, 4, 8, 0, 0}, {2, 0, 4, 4, 0, 0},
                                        {0, 2, 2, 4, 0, 0}, {1, 0, 2, 2, 0, 0}, {0, 1, 1, 2, 0, 0}};
  PngPass area = facts.interlaced ? kAdam7[pass] : PngPass{0, 0, 1, 1, 0, 0};
  if (facts.width > area.left && facts.height > area.top) {
    area.width = divide_up(facts.width - area.left, area.across);
    area.height = divide_up(facts.height - area.top, area.down);
  }
  return area;
}

/// Bytes of `width` pixels, without the filter byte.
inline int64_t png_row_bytes(const PngFacts& facts, int32_t width) {
  return (int64_t{width} * png_channels(facts.color) * facts.bit_depth + 7) / 8;
}

}  // namespace ocellus
