// Pictures for people: frames as JPEG files, small ones of them.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/camera/frame.h"

namespace ocellus::app {

// The frame as a JPEG file of at most `most_side` pixels in width and height (0: as large as it is). JPEG frames that
// need no shrinking are copied. False for frames that cannot be decoded. `*jpeg`'s memory is used again.
bool make_jpeg(const Frame& frame, int32_t most_side, std::vector<uint8_t>* jpeg);

}  // namespace ocellus::app
