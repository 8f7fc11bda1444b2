// llama.cpp's resizes, a row at a time.
#include <algorithm>
#include <limits>

#include "kernels/picture_math.h"
#include "mm/resize.h"

namespace ocellus {

using namespace picture;

void stretch_row_bilinear(const RgbImage& source, Size target, int32_t y, uint8_t* row) {
  const float across = corner_step(source.width, target.width), down = corner_step(source.height, target.height);
  const auto [top, t_down] = split_position(static_cast<float>(y) * down, source.height - 1);
  const uint8_t* upper = source.row(top);
  const uint8_t* lower = source.row(std::min(top + 1, source.height - 1));
  for (int32_t x = 0; x < target.width; ++x, row += 3) {
    const auto [left, t_across] = split_position(static_cast<float>(x) * across, source.width - 1);
    const int32_t right = std::min(left + 1, source.width - 1);
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
  constexpr int32_t kNoLimit = std::numeric_limits<int32_t>::max();
  const auto [top, t_down] = split_position(down * static_cast<float>(y), kNoLimit);
  const uint8_t* rows[4];
  for (int i = 0; i < 4; ++i) rows[i] = source.row(std::clamp(top - 1 + i, 0, source.height - 1));
  for (int32_t x = first; x < first + count; ++x, row += 3) {
    const auto [left, t_across] = split_position(across * static_cast<float>(x), kNoLimit);
    int32_t columns[4];
    for (int i = 0; i < 4; ++i) columns[i] = 3 * std::clamp(left - 1 + i, 0, source.width - 1);
    for (int c = 0; c < 3; ++c) {
      float along[4];
      for (int i = 0; i < 4; ++i) {
        const uint8_t* line = rows[i] + c;
        along[i] = interpolate_cubic(line[columns[0]], line[columns[1]], line[columns[2]], line[columns[3]], t_across);
      }
      row[c] = round_to_byte(interpolate_cubic(along[0], along[1], along[2], along[3], t_down));
    }
  }
}

}  // namespace ocellus
