#include "apps/camera/frame.h"

#include "apps/base/sizes.h"
#include "apps/camera/sentences.h"

namespace ocellus::app {

std::string rate_text(double frames_per_second) {
  const bool whole = frames_per_second == static_cast<double>(static_cast<int64_t>(frames_per_second));
  return format_number(frames_per_second, whole ? 0 : 2);
}

bool has_chroma(int32_t pixel_format) {
  return pixel_format == OCELLUS_NV12 || pixel_format == OCELLUS_YUYV || pixel_format == OCELLUS_I420;
}

int64_t pixel_bytes(int32_t pixel_format, int32_t width, int32_t height) {
  if (width < 1 || height < 1) return 0;
  const int64_t pixels = int64_t{width} * height;
  switch (static_cast<ocellus_pixel_format>(pixel_format)) {
    case OCELLUS_RGB8:
    case OCELLUS_BGR8: return 3 * pixels;
    case OCELLUS_RGBA8:
    case OCELLUS_BGRA8: return 4 * pixels;
    case OCELLUS_GRAY8: return pixels;
    case OCELLUS_NV12: return width % 2 == 0 && height % 2 == 0 ? pixels + pixels / 2 : 0;
    case OCELLUS_YUYV: return width % 2 == 0 ? 2 * pixels : 0;
    case OCELLUS_I420: return pixels + 2 * ((int64_t{width} + 1) / 2) * ((int64_t{height} + 1) / 2);
  }
  return 0;
}

ocellus_frame Frame::view() const {
  const int64_t pixels = int64_t{width} * height;
  ocellus_frame view = {.format = pixel_format,
                        .width = width,
                        .height = height,
                        .full_range = full_range ? 1 : 0,
                        .plane = {bytes.data(), nullptr, nullptr},
                        .stride_bytes = {width, 0, 0},
                        .color_matrix = color_matrix};
  if (pixel_format == OCELLUS_NV12) {
    view.plane[1] = bytes.data() + pixels;
    view.stride_bytes[1] = width;
  } else if (pixel_format == OCELLUS_I420) {
    view.stride_bytes[1] = view.stride_bytes[2] = (int64_t{width} + 1) / 2;
    view.plane[1] = bytes.data() + pixels;
    view.plane[2] = view.plane[1] + view.stride_bytes[1] * ((height + 1) / 2);
  } else {
    view.stride_bytes[0] = pixel_bytes(pixel_format, width, height) / height;
  }
  return view;
}

}  // namespace ocellus::app
