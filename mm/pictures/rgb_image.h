// RgbImage: a decoded picture, 8 bits a channel, interleaved RGB, in CPU memory. It never owns its pixels.
#pragma once

#include <cstdint>

#include "kernels/vision/picture_math.h"
#include "mm/pictures/orientation.h"
#include "platform/status.h"

namespace ocellus {

using picture::blend_on_white;

struct RgbImage {
  const uint8_t* pixels = nullptr;  // first byte of the top row
  int32_t width = 0;                // pixels
  int32_t height = 0;               // rows
  int64_t stride_bytes = 0;         // from one row to the next, >= 3 * width

  const uint8_t* row(int32_t y) const { return pixels + y * stride_bytes; }
};

/// Returns the tightly packed picture of `width` x `height` stored pixels after rotation.
inline RgbImage seen_picture(const uint8_t* pixels, const Orientation& orientation, int32_t width, int32_t height) {
  if (orientation.transposed) return {pixels, height, width, int64_t{3} * height};
  return {pixels, width, height, int64_t{3} * width};
}

/// Composites a row of RGBA8 on white, in place: RGB8 at its front.
void to_rgb_on_white(uint8_t* row, int32_t width);

/// The longest side that is read: libjpeg-turbo's limit.
inline constexpr int32_t kMostImageSide = 65500;

/// Limits of pictures, checked against the header before anything is decoded.
struct ImageLimits {
  int64_t max_pixels = int64_t{1} << 21;          // 1920 x 1080 fits
  int32_t max_side = 8192;                        // pixels; scratch grows with it
  int32_t max_aspect = 200;                       // longer side : shorter side, so that thin bombs are refused
  int64_t max_encoded_bytes = int64_t{32} << 20;  // file size
  int64_t max_whole_pixels = 0;                   // maximum of ImageFacts::whole_pixels; 0: see kWholePixels
  DepthRange depth = {};                          // no limit: how grey of 16 bits is shown
};

/// kBadArgument unless it is none or 0 <= near < far <= 65535.
Status check_depth(const DepthRange& depth);

/// kBadImage if the size is not positive or outside the limits, kBadArgument if the limits are contradictory. `what`
/// names the picture in the sentence ("PNG", "frame").
Status check_image_size(const ImageLimits& limits, const char* what, int64_t width, int64_t height);

/// Maximum of width + height of any picture inside the limits.
int64_t max_side_sum(const ImageLimits& limits);

}  // namespace ocellus
