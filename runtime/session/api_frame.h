// Conversion of the API's frames to the runtime's.
#pragma once

#include "mm/pictures/frame.h"
#include "platform/status.h"
#include "runtime/ocellus.h"

namespace ocellus {

/// Points to the same planes. kBadArgument for an unknown pixel format or colour matrix.
inline Status to_frame(const ocellus_frame& from, Frame* to) {
  if (from.format < OCELLUS_RGB8 || from.format > OCELLUS_I444)
    return OCELLUS_FAIL(Code::kBadArgument, "pixel format %d does not exist", from.format);
  if (from.color_matrix < OCELLUS_BT601 || from.color_matrix > OCELLUS_BT709)
    return OCELLUS_FAIL(Code::kBadArgument, "colour matrix %d does not exist", from.color_matrix);
  to->format = static_cast<PixelFormat>(from.format);
  to->width = from.width;
  to->height = from.height;
  to->matrix = static_cast<ColorMatrix>(from.color_matrix);
  to->full_range = from.full_range != 0;
  to->depth = {from.depth_near, from.depth_far};
  for (int i = 0; i < kFramePlanes; ++i) {
    to->planes[i] = from.plane[i];
    to->stride_bytes[i] = from.stride_bytes[i];
  }
  return {};
}

}  // namespace ocellus
