// 6-bit offsets and steps: a form of a packed block's scales that takes 0.4 times the bytes of f16.
//
// Each of the four rows of scales (key offsets, key steps, value offsets, value steps) has two f16 numbers of its own,
// its minimum (`least`) and the width of a level (`place`), and a code of 6 bits per channel:
//
//   value = f16(least + place * code)
//
// The product is exact in f32 and the sum is rounded twice, so every backend decodes the same f16 number, and ops for
// f16 scales work on the result. Offsets are rounded down and steps up, from the rounded offset, so that no value of a
// channel lies outside its codes. Bytes, from the block's start:
//
//   ends    [4] least and place, f16 each
//   codes   [4, E] of 6 bits: code e in bits 6 e to 6 e + 5 of its row, the least significant bits of a byte first
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#include <cuda_fp16.h>
#endif

#include "quant/kv_format.h"
#include "quant/weight_format.h"

namespace ocellus {

inline constexpr float kLargestScale = 65504.0f;  // maximum of f16

/// Converts |x| <= kLargestScale to the bits of the nearest f16 number, and back.
OCELLUS_EVERYWHERE inline uint16_t half_bits(float x) {
#ifdef __CUDA_ARCH__
  return __half_as_ushort(__float2half_rn(x));
#else
  return float_to_half(x).bits;
#endif
}
OCELLUS_EVERYWHERE inline float float_of_half_bits(uint16_t bits) {
#ifdef __CUDA_ARCH__
  return __half2float(__ushort_as_half(bits));
#else
  return half_to_float(Half{bits});
#endif
}

/// Returns the greatest f16 number that is not above x, and the least that is not below it.
OCELLUS_EVERYWHERE inline uint16_t half_bits_below(float x) {
  const uint16_t bits = half_bits(x);
  if (float_of_half_bits(bits) <= x) return bits;
  return static_cast<uint16_t>((bits & 0x7FFF) == 0 ? 0x8001 : (bits & 0x8000) != 0 ? bits + 1 : bits - 1);
}
OCELLUS_EVERYWHERE inline uint16_t half_bits_above(float x) {
  const uint16_t bits = half_bits(x);
  if (float_of_half_bits(bits) >= x) return bits;
  return static_cast<uint16_t>((bits & 0x7FFF) == 0 ? 0x0001 : (bits & 0x8000) != 0 ? bits - 1 : bits + 1);
}

/// Coding of one row of scales.
struct KvScaleCoding {
  static constexpr int32_t kMax = 63;
  uint16_t least = 0, place = 0;  // bits of f16 numbers

  /// Returns the coding of values in [least, greatest], |each| <= kLargestScale.
  OCELLUS_EVERYWHERE static KvScaleCoding of(float least, float greatest) {
    KvScaleCoding coding;
    coding.least = half_bits_below(least);
    const float span = float_of_half_bits(half_bits_above(greatest)) - float_of_half_bits(coding.least);
    coding.place = half_bits_above(span / static_cast<float>(kMax));
    return coding;
  }
  /// Returns the coding in which all values are NaN.
  OCELLUS_EVERYWHERE static KvScaleCoding not_a_number() {
    KvScaleCoding coding;
    coding.least = 0x7E00;
    return coding;
  }

  OCELLUS_EVERYWHERE uint16_t value_bits(int32_t code) const {
    return half_bits(std::fmaf(float_of_half_bits(place), static_cast<float>(code), float_of_half_bits(least)));
  }
  OCELLUS_EVERYWHERE float value(int32_t code) const { return float_of_half_bits(value_bits(code)); }
  /// Returns a code whose value is close to x and not above it; x in [least, greatest].
  OCELLUS_EVERYWHERE int32_t code_below(float x) const {
    int32_t code = static_cast<int32_t>(places_to(x));
    while (code > 0 && !(value(code) <= x)) --code;
    return code;
  }
  /// Returns a code whose value is close to x and not below it, or else the greatest code that is a number.
  OCELLUS_EVERYWHERE int32_t code_above(float x) const {
    int32_t code = static_cast<int32_t>(std::ceil(places_to(x)));
    while (code < kMax && value(code) < x) ++code;
    while (code > 0 && !(value(code) <= kLargestScale)) --code;
    return code;
  }

 private:
  OCELLUS_EVERYWHERE float places_to(float x) const {
    const float width = float_of_half_bits(place);
    if (!(width > 0.0f)) return 0.0f;
    return std::fmin(std::fmax((x - float_of_half_bits(least)) / width, 0.0f), static_cast<float>(kMax));
  }
};

/// Returns the step with which the codes of a channel with maximum `greatest` reach it from `offset`, the channel's
/// offset as decoded. `range` as in KvScale; the step is never zero either.
OCELLUS_EVERYWHERE inline float reaching_step(float greatest, float offset, float range, int32_t bits) {
  // fmaf rounds once, whether or not a compiler fuses multiply-adds.
  const float span = std::fmaf(range, greatest, -offset);
  const float step = span / static_cast<float>((1 << bits) - 1);
  return std::fmin(std::fmax(step, 1e-6f * std::fmax(1.0f, std::fabs(offset))), kLargestScale);
}

/// Bytes from a block's start to the codes of a row of scales, and to its ends.
OCELLUS_EVERYWHERE constexpr int64_t scale_codes_at(KvScaleRow row, int32_t head_dim) {
  return 4 * kKvScaleRows + row * (int64_t{3} * head_dim / 4);
}
OCELLUS_EVERYWHERE constexpr int64_t scale_ends_at(KvScaleRow row) { return int64_t{4} * row; }

/// Packs four codes into three bytes, and back.
OCELLUS_EVERYWHERE inline void put_scale_codes(const uint8_t (&codes)[4], uint8_t* to) {
  to[0] = static_cast<uint8_t>(codes[0] | codes[1] << 6);
  to[1] = static_cast<uint8_t>(codes[1] >> 2 | codes[2] << 4);
  to[2] = static_cast<uint8_t>(codes[2] >> 4 | codes[3] << 2);
}
OCELLUS_EVERYWHERE inline void get_scale_codes(const uint8_t* from, uint8_t (&codes)[4]) {
  codes[0] = from[0] & 63;
  codes[1] = static_cast<uint8_t>((from[0] >> 6 | from[1] << 2) & 63);
  codes[2] = static_cast<uint8_t>((from[1] >> 4 | from[2] << 4) & 63);
  codes[3] = from[2] >> 2;
}

}  // namespace ocellus
