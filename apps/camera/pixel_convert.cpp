#include "apps/camera/pixel_convert.h"

namespace ocellus::app {
namespace {

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

}  // namespace ocellus::app
