// llama.cpp's resizes. The order of operations and the types are part of the contract: results are equal to the bit.
#include <algorithm>
#include <cmath>

#include "mm/resize.h"

namespace ocellus {
namespace {

float interpolate(float from, float to, float t) { return from + (to - from) * t; }

// The cubic through values at -1, 0, 1 and 2, at 0 <= t < 1. The coefficients are formed in double and kept in float.
float interpolate_cubic(float before, float at, float after, float beyond, float t) {
  const float d0 = before - at, d2 = after - at, d3 = beyond - at;
  const float linear = static_cast<float>(-1.0 / 3 * d0 + d2 - 1.0 / 6 * d3);
  const float square = static_cast<float>(1.0 / 2 * d0 + 1.0 / 2 * d2);
  const float cube = static_cast<float>(-1.0 / 6 * d0 - 1.0 / 2 * d2 + 1.0 / 6 * d3);
  return at + linear * t + square * t * t + cube * t * t * t;
}

}  // namespace

void stretch_row_bilinear(const RgbImage& source, Size target, int32_t y, uint8_t* row) {
  const auto ratio = [](int32_t from, int32_t to) { return to > 1 ? static_cast<float>(from - 1) / (to - 1) : 0.0f; };
  const float across = ratio(source.width, target.width), down = ratio(source.height, target.height);
  const float from_top = y * down;
  const int32_t top = std::min(static_cast<int32_t>(from_top), source.height - 1);
  const float t_down = from_top - top;
  const uint8_t* upper = source.row(top);
  const uint8_t* lower = source.row(std::min(top + 1, source.height - 1));
  for (int32_t x = 0; x < target.width; ++x, row += 3) {
    const float from_left = x * across;
    const int32_t left = std::min(static_cast<int32_t>(from_left), source.width - 1);
    const int32_t right = std::min(left + 1, source.width - 1);
    const float t_across = from_left - left;
    for (int c = 0; c < 3; ++c) {
      const float above = interpolate(upper[3 * left + c], upper[3 * right + c], t_across);
      const float below = interpolate(lower[3 * left + c], lower[3 * right + c], t_across);
      row[c] = static_cast<uint8_t>(interpolate(above, below, t_down));
    }
  }
}

void stretch_row_bicubic(const RgbImage& source, Size target, int32_t y, int32_t first, int32_t count, uint8_t* row) {
  const float across = static_cast<float>(source.width) / static_cast<float>(target.width);
  const float down = static_cast<float>(source.height) / static_cast<float>(target.height);
  const auto top = static_cast<int32_t>(down * y);
  const float t_down = down * y - top;
  const uint8_t* rows[4];
  for (int i = 0; i < 4; ++i) rows[i] = source.row(std::clamp(top - 1 + i, 0, source.height - 1));
  for (int32_t x = first; x < first + count; ++x, row += 3) {
    const auto left = static_cast<int32_t>(across * x);
    const float t_across = across * x - left;
    int32_t columns[4];
    for (int i = 0; i < 4; ++i) columns[i] = 3 * std::clamp(left - 1 + i, 0, source.width - 1);
    for (int c = 0; c < 3; ++c) {
      float along[4];
      for (int i = 0; i < 4; ++i) {
        const uint8_t* line = rows[i] + c;
        along[i] = interpolate_cubic(line[columns[0]], line[columns[1]], line[columns[2]], line[columns[3]], t_across);
      }
      const float value = interpolate_cubic(along[0], along[1], along[2], along[3], t_down);
      row[c] = static_cast<uint8_t>(std::clamp(std::round(value), 0.0f, 255.0f));
    }
  }
}

}  // namespace ocellus
