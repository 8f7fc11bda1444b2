// BMP without compression: every row lies in the file as it is, mostly the last one first.
#pragma once

#include <cstdint>

#include "mm/pictures/rgb_image.h"
#include "mm/pictures/row_consumer.h"
#include "platform/arena.h"
#include "platform/status.h"

namespace ocellus {

struct BmpFacts {
  int32_t width = 0;
  int32_t height = 0;
  bool bottom_up = false;            // the file's first row is the picture's last
  int32_t pixel_bits = 0;            // 1, 4, 8 (palette), 16, 24, 32
  const uint8_t* palette = nullptr;  // blue, green, red
  int32_t color_count = 0;
  int32_t color_bytes = 0;          // per colour of the palette: 3 or 4
  uint32_t masks[4] = {};           // red, green, blue, alpha, of 16 and 32 bits; alpha 0: none
  const uint8_t* pixels = nullptr;  // first stored row
  int64_t row_bytes = 0;
};

/// True if the bytes begin like a BMP.
bool is_bmp(const uint8_t* bytes, int64_t size_bytes);

/// kBadImage if the file is damaged, truncated or outside the limits; kUnsupported for compressed pixels.
Status read_bmp_header(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, BmpFacts* facts);

/// Scratch of decode_bmp_rows for pictures of this width: a row.
inline int64_t bmp_rows_scratch_bytes(int64_t width) { return 3 * width; }

/// Passes the rows as stored; alpha is composited on white. kFull if the scratch is too small.
Status decode_bmp_rows(const BmpFacts& facts, Extent scratch, RowConsumer& rows);

}  // namespace ocellus
