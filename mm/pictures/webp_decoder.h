// WebP, by libwebp in planned memory: it makes the whole picture first. See tools/cmake/webp.cmake for how it comes in.
#pragma once

#include <cstdint>

#include "mm/pictures/row_consumer.h"
#include "mm/pictures/webp_header.h"
#include "platform/arena.h"
#include "platform/status.h"

namespace ocellus {

/// What decode_webp_rows takes for this very picture, if an encoder made it: 3 bytes a pixel of a lossy one, 8 of a
/// lossless one and 11 of a lossy one with alpha, up to 512 KiB of tables and 140 to 210 bytes a pixel of its width. A
/// lossless file may ask for more tables than that.
int64_t webp_rows_scratch_bytes(const WebpFacts& facts);

/// Most of that for pictures within the limits that are at most four times as wide as high.
int64_t webp_rows_scratch_bound(const ImageLimits& limits);

/// Decodes a file that read_webp_header has accepted; alpha is composited on white. kBadImage if the data inside are
/// damaged, kFull if they ask for more than the scratch; no row has come then.
Status decode_webp_rows(const uint8_t* bytes, int64_t size_bytes, const WebpFacts& facts, Extent scratch,
                        RowConsumer& rows);

}  // namespace ocellus
