// HEIC and AVIF, by libheif, which is loaded when the first such file comes: linked, it would cost every start of a
// program 12 ms and 5 MB.
//
// libheif takes its memory from the heap, and has no hooks for it: this is the one decoder outside of planned memory.
// It takes what heif_rows_scratch_bytes says, which the plan must have room for although it stays untouched, so that a
// process keeps within its budget. Only pictures within the limits are decoded, by one thread. Of damaged files libheif
// alone knows.
#pragma once

#include <cstdint>

#include "mm/pictures/heif_header.h"
#include "mm/pictures/rgb_image.h"
#include "mm/pictures/row_consumer.h"
#include "platform/status.h"

namespace ocellus {

struct HeifFacts {
  int32_t width = 0;  // rotated and cropped, as it is shown
  int32_t height = 0;
  int32_t bit_depth = 0;
  bool has_alpha = false;
};

inline bool is_heif(const uint8_t* bytes, int64_t size_bytes) { return heif_kind(bytes, size_bytes) != nullptr; }

/// kUnsupported in builds without libheif's headers, where the library is not installed, and for kinds that it does not
/// decode; kBadImage if the file is damaged or outside the limits.
Status read_heif_header(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, HeifFacts* facts);

/// Heap that libheif and its decoders take for the picture, most of it for 4:4:4 of more than 8 bits.
int64_t heif_rows_scratch_bytes(const HeifFacts& facts);

/// Decodes the main picture of a file that read_heif_header has accepted; alpha is composited on white. kBadImage if
/// the data inside are damaged; no row is passed on then.
Status decode_heif_rows(const uint8_t* bytes, int64_t size_bytes, const HeifFacts& facts, RowConsumer& rows);

}  // namespace ocellus
