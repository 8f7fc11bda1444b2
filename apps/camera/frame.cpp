#include "apps/camera/frame.h"

#include "apps/base/sizes.h"
#include "apps/camera/frame_layout.h"
#include "apps/camera/sentences.h"

namespace ocellus::app {

std::string rate_text(double frames_per_second) {
  const bool whole = frames_per_second == static_cast<double>(static_cast<int64_t>(frames_per_second));
  return format_number(frames_per_second, whole ? 0 : 2);
}

bool has_chroma(int32_t pixel_format) {
  return pixel_format == OCELLUS_NV12 || pixel_format == OCELLUS_YUYV || pixel_format == OCELLUS_I420 ||
         pixel_format == OCELLUS_I422 || pixel_format == OCELLUS_I444;
}

int64_t pixel_bytes(int32_t pixel_format, int32_t width, int32_t height) {
  return packed_layout(pixel_format, width, height).bytes();
}

ocellus_frame Frame::view() const {
  ocellus_frame view = {.format = pixel_format,
                        .width = width,
                        .height = height,
                        .full_range = full_range ? 1 : 0,
                        .plane = {},
                        .stride_bytes = {},
                        .color_matrix = color_matrix,
                        .depth_near = depth.near,
                        .depth_far = depth.far};
  const FrameLayout layout = packed_layout(pixel_format, width, height);
  const uint8_t* at = bytes.data();
  for (size_t i = 0; i < layout.planes.size() && layout.planes[i].rows > 0; ++i) {
    view.plane[i] = at;
    view.stride_bytes[i] = layout.planes[i].stride;
    at += layout.planes[i].stride * layout.planes[i].rows;
  }
  return view;
}

}  // namespace ocellus::app
