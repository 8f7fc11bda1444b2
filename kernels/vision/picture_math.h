// The arithmetic of pictures, one value at a time, for the CPU and for CUDA alike: results are equal to the bit. The
// order of operations and the types are part of the contract (llama.cpp's and Pillow's, see mm/pictures/resize.h).
// Products must not be fused with the sums behind them: CUDA code sees to that in times(), CPU files that include this
// for anything but integer arithmetic are compiled with -ffp-contract=off.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/vision/picture.h"

#ifdef __CUDACC__
#define OCELLUS_BOTH __host__ __device__
#else
#define OCELLUS_BOTH
#endif

namespace ocellus::picture {

/// An RGB8 picture in memory that the running code reads.
struct PicturePixels {
  const uint8_t* data = nullptr;
  int64_t stride_bytes = 0;
  int32_t width = 0;
  int32_t height = 0;
  OCELLUS_BOTH const uint8_t* row(int32_t y) const { return data + y * stride_bytes; }
};

#ifdef __CUDA_ARCH__
__device__ inline float times(float a, float b) { return __fmul_rn(a, b); }
__device__ inline double times(double a, double b) { return __dmul_rn(a, b); }
#else
inline float times(float a, float b) { return a * b; }
inline double times(double a, double b) { return a * b; }
#endif

OCELLUS_BOTH inline int32_t clamp_to(int32_t value, int32_t low, int32_t high) {
  return value < low ? low : value > high ? high : value;
}

OCELLUS_BOTH inline float normalise(uint8_t value, float mean, float std) {
  return (static_cast<float>(value) / 255.0f - mean) / std;
}

/// Source over a white ground: what a picture with alpha (0 clear, 255 solid) looks like. Rounded to nearest.
OCELLUS_BOTH constexpr uint8_t blend_on_white(int colour, int alpha) {
  const int sum = colour * alpha + 255 * (255 - alpha) + 128;
  return static_cast<uint8_t>((sum + (sum >> 8)) >> 8);
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

OCELLUS_BOTH inline void write_yuv(const YuvConversion& k, int y, int u, int v, uint8_t* rgb) {
  const int32_t luma = k.y_gain * (y - k.y_offset) + 32768;
  const int32_t red = luma + k.red_from_v * (v - 128);
  const int32_t green = luma + k.green_from_u * (u - 128) + k.green_from_v * (v - 128);
  const int32_t blue = luma + k.blue_from_u * (u - 128);
  rgb[0] = static_cast<uint8_t>(clamp_to(red >> 16, 0, 255));
  rgb[1] = static_cast<uint8_t>(clamp_to(green >> 16, 0, 255));
  rgb[2] = static_cast<uint8_t>(clamp_to(blue >> 16, 0, 255));
}

/// Pixel x of a row; `chroma` and `red` are the rows of planes 1 and 2 where the format has them.
OCELLUS_BOTH inline void convert_pixel(PixelFormat format, const YuvConversion& conversion, const uint8_t* row,
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
    case PixelFormat::kNv12: write_yuv(conversion, row[x], chroma[2 * pair], chroma[2 * pair + 1], rgb); break;
    case PixelFormat::kYuyv:
      write_yuv(conversion, row[int64_t{2} * x], row[4 * pair + 1], row[4 * pair + 3], rgb);
      break;
    case PixelFormat::kBgr8:
      for (int c = 0; c < 3; ++c) rgb[c] = row[int64_t{3} * x + 2 - c];
      break;
    case PixelFormat::kBgra8:
      for (int c = 0; c < 3; ++c) rgb[c] = blend_on_white(row[int64_t{4} * x + 2 - c], row[int64_t{4} * x + 3]);
      break;
    case PixelFormat::kI420: write_yuv(conversion, row[x], chroma[pair], red[pair], rgb); break;
  }
}

/// Where a target pixel lies between two source pixels: at + t, 0 <= t < 1.
struct LinePosition {
  int32_t at;
  float t;
};
OCELLUS_BOTH inline LinePosition split_position(float position, int32_t last) {
  const auto floor = static_cast<int32_t>(position);
  const int32_t at = floor < last ? floor : last;
  return {at, position - static_cast<float>(at)};
}

/// llama.cpp's "bilinear": steps that keep the corners in place.
OCELLUS_BOTH inline float corner_step(int32_t source, int32_t target) {
  return target > 1 ? static_cast<float>(source - 1) / static_cast<float>(target - 1) : 0.0f;
}
OCELLUS_BOTH inline float interpolate(float from, float to, float t) { return from + times(to - from, t); }

/// llama.cpp's "bicubic": the cubic through values at -1, 0, 1 and 2, at 0 <= t < 1. The coefficients are formed in
/// double and kept in float.
OCELLUS_BOTH inline float interpolate_cubic(float before, float at, float after, float beyond, float t) {
  const float d0 = before - at, d2 = after - at, d3 = beyond - at;
  const double e0 = d0, e2 = d2, e3 = d3;
  const auto linear = static_cast<float>(times(-1.0 / 3, e0) + e2 - times(1.0 / 6, e3));
  const auto square = static_cast<float>(times(1.0 / 2, e0) + times(1.0 / 2, e2));
  const auto cube = static_cast<float>(times(-1.0 / 6, e0) - times(1.0 / 2, e2) + times(1.0 / 6, e3));
  return at + times(linear, t) + times(times(square, t), t) + times(times(times(cube, t), t), t);
}

/// numerator / 6 rounded to nearest, for integers up to 2295: an estimate, then its remainder.
OCELLUS_BOTH inline float sixth(float numerator) {
  constexpr float kSixth = 1.0f / 6;
  const float estimate = numerator * kSixth;
  return fmaf(fmaf(-6.0f, estimate, numerator), kSixth, estimate);
}

/// interpolate_cubic for bytes, in float: GPUs of small devices do double arithmetic at a sixty-fourth of the speed. A
/// coefficient that is not 0 is a multiple of 1/6 and rounds to the same float either way. One that is exactly 0 comes
/// out of the double formula as up to 2e-14; that shows only where the sum it is added to is almost 0 too.
OCELLUS_BOTH inline float interpolate_cubic_bytes(uint8_t before, uint8_t at, uint8_t after, uint8_t beyond, float t) {
  const auto base = static_cast<float>(at);
  const float d0 = static_cast<float>(before) - base, d2 = static_cast<float>(after) - base,
              d3 = static_cast<float>(beyond) - base;
  const float six_linear = 6 * d2 - 2 * d0 - d3, six_cube = d3 - d0 - 3 * d2;
  const float bent = base + times(sixth(six_linear), t) + times(times(0.5f * (d0 + d2), t), t);
  const bool shows = (six_linear == 0 && at == 0) || (six_cube == 0 && fabsf(bent) < 1e-5f);
  if (shows && (before != at || after != at || beyond != at)) return interpolate_cubic(before, at, after, beyond, t);
  return bent + times(times(times(sixth(six_cube), t), t), t);
}

OCELLUS_BOTH inline uint8_t round_to_byte(float value) {
  const float rounded = roundf(value);
  return static_cast<uint8_t>(rounded < 0.0f ? 0.0f : rounded > 255.0f ? 255.0f : rounded);
}

}  // namespace ocellus::picture
