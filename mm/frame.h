// Raw camera frames to RGB8.
#pragma once

#include <cstdint>

#include "mm/rgb_image.h"
#include "platform/arena.h"
#include "platform/status.h"

namespace ocellus {

enum class PixelFormat : uint8_t {
  kRgb8,   // R G B
  kRgba8,  // R G B A; composited on white
  kGray8,  // Y
  kNv12,   // plane 0: Y; plane 1: U V for every 2 x 2 pixels
  kYuyv,   // Y0 U Y1 V for every 2 x 1 pixels
};
const char* pixel_format_name(PixelFormat format);

enum class ColorMatrix : uint8_t { kBt601, kBt709 };

/// A frame in the caller's memory; read during the call only.
struct Frame {
  PixelFormat format = PixelFormat::kRgb8;
  int32_t width = 0;   // even for NV12 and YUYV
  int32_t height = 0;  // even for NV12
  const uint8_t* planes[2] = {nullptr, nullptr};
  int64_t stride_bytes[2] = {0, 0};
  ColorMatrix matrix = ColorMatrix::kBt601;  // NV12 and YUYV only
  bool full_range = false;                   // false: Y in 16..235, U and V in 16..240
};

/// Bytes convert_frame may take from its scratch for a frame within the limits: 3 a pixel.
int64_t frame_scratch_bytes(const ImageLimits& limits);

/// Checks the frame against the limits and its own format, and converts it. Chroma is replicated, not interpolated;
/// results are within 1 of the exact formula. An RGB8 frame is not copied: `out` then points into the caller's memory.
/// kBadArgument for null planes, short strides, odd sizes; kBadImage outside the limits; kFull if the scratch is short.
Status convert_frame(const Frame& frame, const ImageLimits& limits, Extent scratch, RgbImage* out);

}  // namespace ocellus
