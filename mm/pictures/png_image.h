// PNG: chunks, filters, interlacing and colours. zlib inflates, in planned memory.
#pragma once

#include <cstdint>

#include "mm/pictures/orientation.h"
#include "mm/pictures/row_consumer.h"
#include "platform/arena.h"
#include "platform/status.h"

namespace ocellus {

enum class PngColor : uint8_t { kGray = 0, kRgb = 2, kPalette = 3, kGrayAlpha = 4, kRgba = 6 };

struct PngFacts {
  int32_t width = 0;  // as stored
  int32_t height = 0;
  Orientation orientation;
  int32_t bit_depth = 0;  // 1, 2, 4, 8, 16
  PngColor color = PngColor::kGray;
  bool interlaced = false;
  int32_t data_chunks = 0;              // IDAT
  int64_t data_bytes = 0;               // total of all IDAT chunks
  const uint8_t* first_data = nullptr;  // contents of the first IDAT chunk
  int64_t filtered_bytes = 0;           // inflated: every row of every pass with its filter byte
  bool has_transparent_color = false;   // grey or RGB with a tRNS chunk
  uint16_t transparent[3] = {};
  DepthRange depth = {};         // meaning of grey of 16 bits, by the limits
  uint8_t palette[256][3] = {};  // already composited on white; missing entries are black
};

/// Samples per pixel in the file.
int32_t png_channels(PngColor color);

/// Walks all chunks. kBadImage if the file is damaged, truncated or outside the limits; kUnsupported for unknown
/// critical chunks (among them Apple's CgBI).
Status read_png_header(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, PngFacts* facts);

/// Scratch of decode_png_rows: a few rows, or an interlaced picture as a whole, and zlib's window.
int64_t png_rows_scratch_bytes(const PngFacts& facts);
/// Maximum of that for pictures that are not interlaced and at most `side` pixels wide.
int64_t png_rows_scratch_bound(int64_t side);

/// `bytes` as given to read_png_header, in scratch of png_rows_scratch_bytes. An interlaced picture's rows come after
/// all of it is read. kBadImage if the data are damaged, possibly after some rows.
Status decode_png_rows(const uint8_t* bytes, int64_t size_bytes, const PngFacts& facts, Extent scratch,
                       RowConsumer& rows);

}  // namespace ocellus
