// The arithmetic of pictures, one value at a time, for the CPU and for CUDA: results are bit-equal. The order of
// operations and the types are part of the contract (Pillow's, see mm/pictures/resize.h). Products must not be fused
// with sums: CUDA code ensures that in times(), CPU files that include this for anything but integer arithmetic are
// compiled with -ffp-contract=off.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/vision/picture.h"
#include "platform/everywhere.h"

namespace ocellus::picture {

#ifdef __CUDA_ARCH__
__device__ inline float times(float a, float b) { return __fmul_rn(a, b); }
__device__ inline double times(double a, double b) { return __dmul_rn(a, b); }
#else
inline float times(float a, float b) { return a * b; }
inline double times(double a, double b) { return a * b; }
#endif

OCELLUS_EVERYWHERE inline int32_t clamp_to(int32_t value, int32_t low, int32_t high) {
  return value < low ? low : value > high ? high : value;
}

OCELLUS_EVERYWHERE inline float normalise(uint8_t value, float mean, float std) {
  return (static_cast<float>(value) / 255.0f - mean) / std;
}

/// Composites a colour with alpha (0 clear, 255 solid) on white. Rounded to nearest.
OCELLUS_EVERYWHERE constexpr uint8_t blend_on_white(int colour, int alpha) {
  const int sum = colour * alpha + 255 * (255 - alpha) + 128;
  return static_cast<uint8_t>((sum + (sum >> 8)) >> 8);
}

/// A 16-bit sample as grey: see DepthRange. 0, a depth camera's word for no reading, is black as well.
OCELLUS_EVERYWHERE constexpr uint8_t grey_of_16_bits(int32_t sample, const DepthRange& depth) {
  if (depth.far == 0) return static_cast<uint8_t>(sample >> 8);
  if (sample == 0 || sample >= depth.far) return 0;
  if (sample <= depth.near) return 255;
  const int32_t length = depth.far - depth.near;
  return static_cast<uint8_t>((255 * (depth.far - sample) + length / 2) / length);
}

/// YUV to RGB in 16.16 fixed point: rgb = y_gain * (Y - y_offset) + gains * (U - 128, V - 128).
struct YuvConversion {
  int32_t y_offset;
  int32_t y_gain;
  int32_t red_from_v;
  int32_t green_from_u;
  int32_t green_from_v;
  int32_t blue_from_u;
};
const YuvConversion& yuv_conversion(ColorMatrix matrix, bool full_range);

OCELLUS_EVERYWHERE inline void write_yuv(const YuvConversion& k, int y, int u, int v, uint8_t* rgb) {
  const int32_t luma = k.y_gain * (y - k.y_offset) + 32768;
  const int32_t red = luma + k.red_from_v * (v - 128);
  const int32_t green = luma + k.green_from_u * (u - 128) + k.green_from_v * (v - 128);
  const int32_t blue = luma + k.blue_from_u * (u - 128);
  rgb[0] = static_cast<uint8_t>(clamp_to(red >> 16, 0, 255));
  rgb[1] = static_cast<uint8_t>(clamp_to(green >> 16, 0, 255));
  rgb[2] = static_cast<uint8_t>(clamp_to(blue >> 16, 0, 255));
}

/// The row of planes 1 and 2 that goes with row y of plane 0.
template <typename Row>
OCELLUS_EVERYWHERE constexpr Row chroma_row(PixelFormat format, Row y) {
  return format == PixelFormat::kI422 || format == PixelFormat::kI444 ? y : y / 2;
}

/// The meaning of a pixel's values.
struct PixelMeaning {
  YuvConversion yuv;
  DepthRange depth;
};

/// Converts pixel x of a row; `chroma` and `red` are the rows of planes 1 and 2 if the format has them.
OCELLUS_EVERYWHERE inline void convert_pixel(PixelFormat format, const PixelMeaning& meaning, const uint8_t* row,
                                             const uint8_t* chroma, const uint8_t* red, int32_t x, uint8_t* rgb) {
  const int64_t pair = x / 2;
  switch (format) {
    case PixelFormat::kRgb8:
      for (int c = 0; c < 3; ++c) rgb[c] = row[int64_t{3} * x + c];
      break;
    case PixelFormat::kRgba8:
      for (int c = 0; c < 3; ++c) rgb[c] = blend_on_white(row[int64_t{4} * x + c], row[int64_t{4} * x + 3]);
      break;
    case PixelFormat::kGray8: rgb[0] = rgb[1] = rgb[2] = row[x]; break;
    case PixelFormat::kNv12: write_yuv(meaning.yuv, row[x], chroma[2 * pair], chroma[2 * pair + 1], rgb); break;
    case PixelFormat::kYuyv:
      write_yuv(meaning.yuv, row[int64_t{2} * x], row[4 * pair + 1], row[4 * pair + 3], rgb);
      break;
    case PixelFormat::kBgr8:
      for (int c = 0; c < 3; ++c) rgb[c] = row[int64_t{3} * x + 2 - c];
      break;
    case PixelFormat::kBgra8:
      for (int c = 0; c < 3; ++c) rgb[c] = blend_on_white(row[int64_t{4} * x + 2 - c], row[int64_t{4} * x + 3]);
      break;
    case PixelFormat::kI420:
    case PixelFormat::kI422: write_yuv(meaning.yuv, row[x], chroma[pair], red[pair], rgb); break;
    case PixelFormat::kI444: write_yuv(meaning.yuv, row[x], chroma[x], red[x], rgb); break;
    case PixelFormat::kGray16:
      rgb[0] = rgb[1] = rgb[2] = grey_of_16_bits(row[2 * int64_t{x}] | row[2 * int64_t{x} + 1] << 8, meaning.depth);
      break;
  }
}

}  // namespace ocellus::picture
