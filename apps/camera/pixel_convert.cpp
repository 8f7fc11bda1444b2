#include "apps/camera/pixel_convert.h"

#include <algorithm>
#include <cstring>

namespace ocellus::app {
namespace {

uint8_t clamp_byte(int32_t value) { return static_cast<uint8_t>(std::clamp(value, 0, 255)); }

// Coefficients with 16 fraction bits, as in kernels/vision/picture_math.h.
struct YuvScale {
  int32_t luma_offset, luma, red_cr, green_cb, green_cr, blue_cb;
};

// Derives the coefficients from the weights of red and blue in luma, which define BT.601 and BT.709.
constexpr YuvScale make_scale(double red, double blue, bool full_range) {
  const double luma = full_range ? 1.0 : 255.0 / 219.0, chroma = full_range ? 1.0 : 255.0 / 224.0;
  const double green = 1.0 - red - blue;
  const auto fixed = [](double value) { return static_cast<int32_t>(value * 65536.0 + (value < 0 ? -0.5 : 0.5)); };
  return {full_range ? 0 : 16,
          fixed(luma),
          fixed(2.0 * (1.0 - red) * chroma),
          fixed(-2.0 * (1.0 - blue) * blue / green * chroma),
          fixed(-2.0 * (1.0 - red) * red / green * chroma),
          fixed(2.0 * (1.0 - blue) * chroma)};
}
constexpr YuvScale kScales[2][2] = {{make_scale(0.299, 0.114, false), make_scale(0.299, 0.114, true)},
                                    {make_scale(0.2126, 0.0722, false), make_scale(0.2126, 0.0722, true)}};

const YuvScale& scale_of(int32_t color_matrix, bool full_range) {
  return kScales[color_matrix == OCELLUS_BT709 ? 1 : 0][full_range ? 1 : 0];
}

void write_rgb(const YuvScale& scale, int32_t y, int32_t cb, int32_t cr, uint8_t* rgb) {
  const int32_t luma = (y - scale.luma_offset) * scale.luma + 32768;
  rgb[0] = clamp_byte((luma + scale.red_cr * (cr - 128)) >> 16);
  rgb[1] = clamp_byte((luma + scale.green_cb * (cb - 128) + scale.green_cr * (cr - 128)) >> 16);
  rgb[2] = clamp_byte((luma + scale.blue_cb * (cb - 128)) >> 16);
}

uint8_t luma_of(int32_t red, int32_t green, int32_t blue) {
  return static_cast<uint8_t>(((16829 * red + 33039 * green + 6416 * blue + 32768) >> 16) + 16);
}
// Chroma from sums over `count` pixels, a power of two given as a shift.
uint8_t cb_of(int32_t red, int32_t green, int32_t blue, int shift) {
  return static_cast<uint8_t>(((-9714 * red - 19070 * green + 28784 * blue + (32768 << shift)) >> (16 + shift)) + 128);
}
uint8_t cr_of(int32_t red, int32_t green, int32_t blue, int shift) {
  return static_cast<uint8_t>(((28784 * red - 24103 * green - 4681 * blue + (32768 << shift)) >> (16 + shift)) + 128);
}

}  // namespace

void convert_to_rgb(const Frame& frame, uint8_t* rgb) {
  const int64_t width = frame.width, height = frame.height, pixels = width * height;
  const uint8_t* from = frame.bytes.data();
  const YuvScale& scale = scale_of(frame.color_matrix, frame.full_range);
  switch (static_cast<ocellus_pixel_format>(frame.pixel_format)) {
    case OCELLUS_RGB8: std::memcpy(rgb, from, static_cast<size_t>(3 * pixels)); return;
    case OCELLUS_RGBA8:
      for (int64_t i = 0; i < pixels; ++i) std::memcpy(rgb + 3 * i, from + 4 * i, 3);
      return;
    case OCELLUS_BGR8:
    case OCELLUS_BGRA8: {
      const int64_t step = frame.pixel_format == OCELLUS_BGR8 ? 3 : 4;
      for (int64_t i = 0; i < pixels; ++i) std::reverse_copy(from + step * i, from + step * i + 3, rgb + 3 * i);
      return;
    }
    case OCELLUS_GRAY8:
      for (int64_t i = 0; i < pixels; ++i) std::memset(rgb + 3 * i, from[i], 3);
      return;
    case OCELLUS_NV12:
      for (int64_t y = 0; y < height; ++y) {
        const uint8_t* luma = from + y * width;
        const uint8_t* chroma = from + pixels + y / 2 * width;
        for (int64_t x = 0; x < width; ++x) {
          write_rgb(scale, luma[x], chroma[x & ~int64_t{1}], chroma[x | 1], rgb + 3 * (y * width + x));
        }
      }
      return;
    case OCELLUS_I420: {
      const ocellus_frame view = frame.view();
      for (int64_t y = 0; y < height; ++y) {
        const uint8_t* blue = view.plane[1] + y / 2 * view.stride_bytes[1];
        const uint8_t* red = view.plane[2] + y / 2 * view.stride_bytes[2];
        for (int64_t x = 0; x < width; ++x, rgb += 3)
          write_rgb(scale, from[y * width + x], blue[x / 2], red[x / 2], rgb);
      }
      return;
    }
    case OCELLUS_YUYV:
      for (int64_t i = 0; i < pixels; i += 2) {
        const uint8_t* pair = from + 2 * i;
        write_rgb(scale, pair[0], pair[1], pair[3], rgb + 3 * i);
        write_rgb(scale, pair[2], pair[1], pair[3], rgb + 3 * i + 3);
      }
      return;
  }
}

void convert_to_nv12(const uint8_t* rgb, int32_t width, int32_t height, uint8_t* nv12) {
  uint8_t* chroma = nv12 + int64_t{width} * height;
  for (int32_t y = 0; y < height; y += 2) {
    const uint8_t* upper = rgb + int64_t{3} * y * width;
    const uint8_t* lower = upper + int64_t{3} * width;
    uint8_t* luma = nv12 + int64_t{y} * width;
    for (int32_t x = 0; x < width; ++x) {
      luma[x] = luma_of(upper[3 * x], upper[3 * x + 1], upper[3 * x + 2]);
      luma[width + x] = luma_of(lower[3 * x], lower[3 * x + 1], lower[3 * x + 2]);
    }
    for (int32_t x = 0; x < width; x += 2) {
      int32_t sum[3];
      for (int c = 0; c < 3; ++c) {
        sum[c] = upper[3 * x + c] + upper[3 * x + 3 + c] + lower[3 * x + c] + lower[3 * x + 3 + c];
      }
      chroma[x] = cb_of(sum[0], sum[1], sum[2], 2);
      chroma[x + 1] = cr_of(sum[0], sum[1], sum[2], 2);
    }
    chroma += width;
  }
}

void convert_to_yuyv(const uint8_t* rgb, int32_t width, int32_t height, uint8_t* yuyv) {
  const int64_t pixels = int64_t{width} * height;
  for (int64_t i = 0; i < pixels; i += 2) {
    const uint8_t* left = rgb + 3 * i;
    const uint8_t* right = left + 3;
    const int32_t red = left[0] + right[0], green = left[1] + right[1], blue = left[2] + right[2];
    yuyv[2 * i] = luma_of(left[0], left[1], left[2]);
    yuyv[2 * i + 1] = cb_of(red, green, blue, 1);
    yuyv[2 * i + 2] = luma_of(right[0], right[1], right[2]);
    yuyv[2 * i + 3] = cr_of(red, green, blue, 1);
  }
}

void convert_planes_to_rgb(const uint8_t* planes, int32_t width, int32_t height, int32_t color_matrix, bool full_range,
                           uint8_t* rgb) {
  const int64_t pixels = int64_t{width} * height;
  const YuvScale& scale = scale_of(color_matrix, full_range);
  for (int64_t i = 0; i < pixels; ++i) {
    write_rgb(scale, planes[i], planes[pixels + i], planes[2 * pixels + i], rgb + 3 * i);
  }
}

}  // namespace ocellus::app
