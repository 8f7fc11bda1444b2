// A caller's frame as the runtime has it.
#pragma once

#include "mm/frame.h"
#include "platform/status.h"
#include "runtime/ocellus.h"

namespace ocellus {

/// Points to the same planes. kBadArgument for a pixel format that does not exist.
inline Status to_frame(const ocellus_frame& from, Frame* to) {
  if (from.format < OCELLUS_RGB8 || from.format > OCELLUS_YUYV)
    return OCELLUS_FAIL(Code::kBadArgument, "pixel format %d does not exist", from.format);
  to->format = static_cast<PixelFormat>(from.format);
  to->width = from.width;
  to->height = from.height;
  to->full_range = from.full_range != 0;
  for (int i = 0; i < 2; ++i) {
    to->planes[i] = from.plane[i];
    to->stride_bytes[i] = from.stride_bytes[i];
  }
  return {};
}

}  // namespace ocellus
