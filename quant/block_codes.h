// Block weights as integers. Every block format stores small integers in groups that share a scale and sometimes a
// minimum; matrix products use them in this form:
//
//   weight[i] = scales[i / G] * codes[i] - minimums[i / G]        G = group_elements
//
// Formats with levels store the index 0..15 of a level as the code; the weight is then computed from levels[code].
#pragma once

#include <bit>
#include <cstdint>

#include "quant/weight_format.h"

namespace ocellus {

struct CodeLayout {
  int32_t group_elements;  // 32, or 16 for Q2_K, Q3_K and Q6_K
  bool has_minimum;
  const int8_t* levels = nullptr;  // [16], aligned to 16; null where codes are the integers themselves
};

/// Returns the scale of an MXFP4 block, a power of two: `exponent` is its exponent, plus 128. The lowest two scales are
/// subnormal.
inline float mxfp4_scale(uint8_t exponent) {
  return std::bit_cast<float>(exponent < 2 ? 0x00200000u << exponent : (exponent - uint32_t{1}) << 23);
}

/// True for the formats that consist of codes, false for F32, F16 and BF16.
bool is_block_format(WeightFormat format);

/// Returns the layout of a block format.
CodeLayout code_layout(WeightFormat format);

/// Decodes `cols` weights (a multiple of the block size) of a block format: codes [cols], scales and minimums [cols /
/// G]. `minimums` is written only if the layout has them, and may be null otherwise.
void decode_codes(WeightFormat format, const uint8_t* source, int64_t cols, int8_t* codes, float* scales,
                  float* minimums);

}  // namespace ocellus
