// Frames as (small) JPEG files.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/camera/frame.h"

namespace ocellus::app {

// Writes the frame as a JPEG file of at most `most_side` pixels in width and height (0: its own size). JPEG frames that
// need no shrinking are copied. Returns false for frames that cannot be decoded. Reuses the memory of `*jpeg`.
bool make_jpeg(const Frame& frame, int32_t most_side, std::vector<uint8_t>* jpeg);

}  // namespace ocellus::app
