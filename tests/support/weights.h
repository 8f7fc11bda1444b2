// Random weight matrices in any format: random codes, scales of a sensible size.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "quant/weight_format.h"
#include "tests/support/random.h"

namespace ocellus::test {

struct Weights {
  std::vector<uint8_t> bytes;
  WeightFormat format;
  int64_t rows, cols;

  WeightView view() const { return {bytes.data(), format, rows, cols}; }
  std::vector<float> decoded() const {
    std::vector<float> values(static_cast<size_t>(rows * cols));
    for (int64_t row = 0; row < rows; ++row) decode_row(format, view().row(row), cols, values.data() + row * cols);
    return values;
  }
};

/// Offsets of the half-precision scales (and minimums) of a block format in its block. MXFP4 has none.
inline std::vector<int> scale_offsets(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ4_1:
    case WeightFormat::kQ5_1:
    case WeightFormat::kQ4_K:
    case WeightFormat::kQ5_K: return {0, 2};
    case WeightFormat::kQ6_K: return {208};
    case WeightFormat::kQ2_K: return {80, 82};
    case WeightFormat::kQ3_K: return {108};
    case WeightFormat::kMXFP4: return {};
    default: return {0};
  }
}

inline void write_half(uint8_t* out, float value) {
  const Half half = float_to_half(value);
  std::memcpy(out, &half.bits, 2);
}

/// Gives a block this scale, or the nearest power of two, and this minimum where the format has one.
inline void write_scales(WeightFormat format, float scale, float minimum, uint8_t* block) {
  if (format == WeightFormat::kMXFP4)
    block[0] = static_cast<uint8_t>(128 + std::lround(std::log2(std::max(std::abs(scale), 1e-6f))));
  const std::vector<int> offsets = scale_offsets(format);
  for (size_t i = 0; i < offsets.size(); ++i) write_half(block + offsets[i], i == 0 ? scale : minimum);
}

/// `cols` must be a multiple of the format's block. The buffer has exactly the bytes of the matrix.
inline Weights random_weights(WeightFormat format, int64_t rows, int64_t cols, Random& random) {
  Weights weights{random.bytes(rows * row_bytes(format, cols)), format, rows, cols};
  const WeightFormatInfo& info = format_info(format);
  for (int64_t at = 0; at < static_cast<int64_t>(weights.bytes.size()); at += info.block_bytes) {
    uint8_t* block = weights.bytes.data() + at;
    const float value = random.normal(0.05f);
    if (format == WeightFormat::kF32) {
      std::memcpy(block, &value, 4);
    } else if (format == WeightFormat::kF16) {
      write_half(block, value);
    } else if (format == WeightFormat::kBF16) {
      std::memcpy(block, reinterpret_cast<const uint8_t*>(&value) + 2, 2);
    } else {
      const float scale = random.uniform(-0.01f, 0.02f);
      write_scales(format, scale, random.uniform(-0.01f, 0.02f), block);
    }
  }
  return weights;
}

}  // namespace ocellus::test
