#include "apps/camera/frame.h"

#include "apps/camera/sentences.h"
#include "apps/sizes.h"

namespace ocellus::app {

std::string rate_text(double frames_per_second) {
  const bool whole = frames_per_second == static_cast<double>(static_cast<int64_t>(frames_per_second));
  return format_number(frames_per_second, whole ? 0 : 2);
}

int64_t pixel_bytes(int32_t pixel_format, int32_t width, int32_t height) {
  if (width < 1 || height < 1) return 0;
  const int64_t pixels = int64_t{width} * height;
  switch (static_cast<ocellus_pixel_format>(pixel_format)) {
    case OCELLUS_RGB8: return 3 * pixels;
    case OCELLUS_RGBA8: return 4 * pixels;
    case OCELLUS_GRAY8: return pixels;
    case OCELLUS_NV12: return width % 2 == 0 && height % 2 == 0 ? pixels + pixels / 2 : 0;
    case OCELLUS_YUYV: return width % 2 == 0 ? 2 * pixels : 0;
  }
  return 0;
}

ocellus_frame Frame::view() const {
  const int64_t pixels = int64_t{width} * height;
  const int64_t row_bytes = pixel_format == OCELLUS_NV12 ? width : pixel_bytes(pixel_format, width, height) / height;
  return {.format = pixel_format,
          .width = width,
          .height = height,
          .full_range = full_range ? 1 : 0,
          .plane = {bytes.data(), pixel_format == OCELLUS_NV12 ? bytes.data() + pixels : nullptr},
          .stride_bytes = {row_bytes, pixel_format == OCELLUS_NV12 ? width : 0}};
}

}  // namespace ocellus::app
