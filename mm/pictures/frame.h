// Raw camera frames to RGB8.
#pragma once

#include <cstdint>

#include "mm/pictures/row_consumer.h"
#include "platform/arena.h"
#include "platform/status.h"

namespace ocellus {

const char* pixel_format_name(PixelFormat format);

/// A frame in the caller's memory; read during the call only.
struct Frame {
  PixelFormat format = PixelFormat::kRgb8;
  int32_t width = 0;   // even for NV12 and YUYV
  int32_t height = 0;  // even for NV12
  const uint8_t* planes[kFramePlanes] = {};
  int64_t stride_bytes[kFramePlanes] = {};
  ColorMatrix matrix = ColorMatrix::kBt601;  // meaning of U and V
  bool full_range = false;                   // false: Y in 16..235, U and V in 16..240
  DepthRange depth = {};                     // meaning of kGray16; none: the limits'
};

/// kBadArgument for unknown formats, null planes, short strides, odd sizes, depths that are no range; kBadImage outside
/// the limits.
Status check_frame(const Frame& frame, const ImageLimits& limits);

/// The depths of a frame: its own or, if it has none, those of the limits.
DepthRange depth_of(const Frame& frame, const ImageLimits& limits);

/// Rows of a plane and bytes per row, 0 for a plane that the format does not have.
struct PlaneSize {
  int32_t rows = 0;
  int64_t row_bytes = 0;
};
PlaneSize plane_size(const Frame& frame, int plane);

/// Checks the frame and passes every row to `rows` as RGB8, in scratch of 3 bytes per pixel of a row; rows of an RGB8
/// frame are passed in place. Chroma is replicated, not interpolated; results are within 1 of the exact formula. kFull
/// if the scratch is too small.
Status feed_frame(const Frame& frame, const ImageLimits& limits, Extent scratch, RowConsumer& rows);

/// Checks the frame and converts it to rows of 3 * width bytes, without scratch. kFull if `rgb` is smaller.
Status convert_frame(const Frame& frame, const ImageLimits& limits, uint8_t* rgb, int64_t rgb_bytes);

}  // namespace ocellus
