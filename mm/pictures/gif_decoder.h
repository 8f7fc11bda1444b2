// GIF: LZW codes, palettes and interlacing.
#pragma once

#include <cstdint>

#include "mm/pictures/gif_header.h"
#include "mm/pictures/row_consumer.h"
#include "platform/arena.h"
#include "platform/status.h"

namespace ocellus {

/// Memory of next_gif_frame: the screen twice, and scratch.
int64_t gif_animation_bytes(int32_t width, int32_t height);

/// Draws the next frame of a file that read_gif_header has accepted over the last one, which `memory` still holds; both
/// are at its front, RGB8 on white. *place: where the last one begins, 0 before the first; -1 after the last one, and
/// then nothing is drawn. kBadImage if its data are damaged, possibly after some rows.
Status next_gif_frame(const uint8_t* bytes, int64_t size_bytes, int64_t* place, Extent memory, RgbImage* out);

/// Scratch of decode_gif_rows: rows, and the screen if its first frame is interlaced.
int64_t gif_rows_scratch_bytes(const GifFacts& facts);
/// Maximum of that for pictures at most `side` pixels wide whose first frame is not interlaced.
int64_t gif_rows_scratch_bound(int64_t side);

/// Decodes the first frame of a file that read_gif_header has accepted; what it does not draw is white.
Status decode_gif_rows(const GifFacts& facts, Extent scratch, RowConsumer& rows);

}  // namespace ocellus
