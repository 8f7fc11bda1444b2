// WebP, by libwebp in planned memory: it decodes the whole picture first. See tools/cmake/webp.cmake for how it is
// built in.
#pragma once

#include <cstdint>

#include "mm/pictures/row_consumer.h"
#include "mm/pictures/webp_header.h"
#include "platform/arena.h"
#include "platform/status.h"

namespace ocellus {

/// Scratch of decode_webp_rows for this picture, if made by an encoder: 3 bytes a pixel for a lossy one, 8 for a
/// lossless one and 11 for a lossy one with alpha, up to 512 KiB of tables and 140 to 210 bytes per pixel of its width.
/// A crafted lossless file may need more tables than that.
int64_t webp_rows_scratch_bytes(const WebpFacts& facts);

/// Maximum of that for pictures within the limits that are at most four times as wide as high.
int64_t webp_rows_scratch_bound(const ImageLimits& limits);

/// Decodes a file that read_webp_header has accepted; alpha is composited on white. kBadImage if the data inside are
/// damaged, kFull if they need more than the scratch; no row is passed on then.
Status decode_webp_rows(const uint8_t* bytes, int64_t size_bytes, const WebpFacts& facts, Extent scratch,
                        RowConsumer& rows);

}  // namespace ocellus
