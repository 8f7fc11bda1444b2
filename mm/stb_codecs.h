// The two things we take from stb_image: the JPEG decoder and the inflater. Nothing else includes stb_image.h.
#pragma once

#include <cstdint>

#include "mm/block_allocator.h"

namespace ocellus {

/// Bytes the JPEG decoder keeps for its own tables, besides planes and output.
int64_t jpeg_state_bytes();

/// Decodes a JPEG that read_jpeg_header has accepted to tightly packed RGB8 in a block of `allocator`, which every
/// other allocation comes from and goes back to. Null on failure; `reason` is then a short phrase, never null.
uint8_t* decode_jpeg_rgb(const uint8_t* bytes, int64_t size_bytes, BlockAllocator& allocator, int32_t* width,
                         int32_t* height, const char** reason);

/// Inflates a zlib stream into a buffer of exactly the expected size. Returns the bytes written, -1 if the stream is
/// damaged, truncated or longer than the buffer. The buffer should be zeroed: a crafted stream may copy from it.
int64_t inflate_zlib(const uint8_t* bytes, int64_t size_bytes, uint8_t* output, int64_t output_bytes);

}  // namespace ocellus
