// The formats of weight_codes.cuh whose blocks hold 256 weights.
#pragma once

#include <cstdint>

#include "kernels/linear/weight_codes.cuh"

namespace ocellus::cuda {

/// Returns the scale and minimum of a group of Q4_K or Q5_K: eight pairs of 6-bit numbers in twelve bytes, each times a
/// half.
__device__ inline GroupScale scale_of_eight(const uint8_t* block, int group) {
  const uint4 head = *reinterpret_cast<const uint4*>(block);
  const float2 units = __half22float2(*reinterpret_cast<const __half2*>(&head.x));
  const bool front = group < 4;
  const uint32_t upper_scales = (head.w & each_byte(15)) | ((head.y >> 2) & each_byte(0x30));
  const uint32_t upper_minimums = ((head.w >> 4) & each_byte(15)) | ((head.z >> 2) & each_byte(0x30));
  const uint32_t scales = front ? head.y & each_byte(63) : upper_scales;
  const uint32_t minimums = front ? head.z & each_byte(63) : upper_minimums;
  return {units.x * byte_value(scales, group & 3), units.y * byte_value(minimums, group & 3)};
}

template <>
struct Blocks<WeightFormat::kQ4_K> {
  static constexpr int kBytes = 144, kElements = 256;
  static constexpr bool kMinimum = true, kHalves = false;
  template <int kCount>
  static __device__ void codes(const uint8_t* block, int group, int first, Words<kCount>& low, Words<kCount>& high) {
    const uint8_t* pairs = block + 16 + 32 * (group >> 1) + 4 * first;
    load_aligned<kCount>(pairs, low);
    load_aligned<kCount>(pairs + 16, high);
    const int shift = 4 * (group & 1);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      low[i] = (low[i] >> shift) & each_byte(15);
      high[i] = (high[i] >> shift) & each_byte(15);
    }
  }
  static __device__ GroupScale scale(const uint8_t* block, int group) { return scale_of_eight(block, group); }
};

template <>
struct Blocks<WeightFormat::kQ5_K> {
  static constexpr int kBytes = 176, kElements = 256;
  static constexpr bool kMinimum = true, kHalves = false;
  template <int kCount>
  static __device__ void codes(const uint8_t* block, int group, int first, Words<kCount>& low, Words<kCount>& high) {
    const uint8_t* pairs = block + 48 + 32 * (group >> 1) + 4 * first;
    load_aligned<kCount>(pairs, low);
    load_aligned<kCount>(pairs + 16, high);
    Words<kCount> low_fifth, high_fifth;
    load_aligned<kCount>(block + 16 + 4 * first, low_fifth);
    load_aligned<kCount>(block + 32 + 4 * first, high_fifth);
    const int shift = 4 * (group & 1);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      low[i] = ((low[i] >> shift) & each_byte(15)) | (((low_fifth[i] >> group) & each_byte(1)) << 4);
      high[i] = ((high[i] >> shift) & each_byte(15)) | (((high_fifth[i] >> group) & each_byte(1)) << 4);
    }
  }
  static __device__ GroupScale scale(const uint8_t* block, int group) { return scale_of_eight(block, group); }
};

template <>
struct Blocks<WeightFormat::kIQ4_XS> {
  static constexpr int kBytes = 136, kElements = 256;
  static constexpr bool kMinimum = false, kHalves = false;
  template <int kCount>
  static __device__ void codes(const uint8_t* block, int group, int first, Words<kCount>& low, Words<kCount>& high) {
    load_levels<NonLinearLevels, kCount, 2>(block + 8 + 16 * group + 4 * first, low, high);
  }
  static __device__ GroupScale scale(const uint8_t* block, int group) {
    const uint2 head = *reinterpret_cast<const uint2*>(block);  // the half, upper bits of scales, lower bits
    const uint32_t upper = (head.x >> (16 + 2 * group)) & 3, lower = (head.y >> (4 * group)) & 15;
    const int scale = static_cast<int>(lower | upper << 4) - 32;
    return {__low2float(*reinterpret_cast<const __half2*>(&head.x)) * static_cast<float>(scale), 0.0f};
  }
};

/// Codes times the scales of their halves, at most 45: `scale` is the block's own.
template <>
struct Blocks<WeightFormat::kQ2_K> {
  static constexpr int kBytes = 84, kElements = 256;
  static constexpr bool kMinimum = true, kHalves = false;
  template <int kCount>
  static __device__ void codes(const uint8_t* block, int group, int first, Words<kCount>& low, Words<kCount>& high) {
    const uint8_t* pairs = block + 16 + 32 * (group >> 2) + 4 * first;
    load_words<kCount>(pairs, low);
    load_words<kCount>(pairs + 16, high);
    const uint32_t low_scale = block[2 * group] & 15, high_scale = block[2 * group + 1] & 15;
    const int shift = 2 * (group & 3);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      low[i] = ((low[i] >> shift) & each_byte(3)) * low_scale;
      high[i] = ((high[i] >> shift) & each_byte(3)) * high_scale;
    }
  }
  static __device__ GroupScale scale(const uint8_t* block, int) { return {half_at(block + 80), half_at(block + 82)}; }
  /// Returns the integers of the halves, in each byte of a word.
  static __device__ uint2 half_minimums(const uint8_t* block, int group) {
    return {each_byte(block[2 * group] >> 4), each_byte(block[2 * group + 1] >> 4)};
  }
};

template <>
struct Blocks<WeightFormat::kQ3_K> {
  static constexpr int kBytes = 110, kElements = 256;
  static constexpr bool kMinimum = false, kHalves = true;
  template <int kCount>
  static __device__ void codes(const uint8_t* block, int group, int first, Words<kCount>& low, Words<kCount>& high) {
    const uint8_t* pairs = block + 32 + 32 * (group >> 2) + 4 * first;
    Words<kCount> low_third, high_third;
    load_words<kCount>(pairs, low);
    load_words<kCount>(pairs + 16, high);
    load_words<kCount>(block + 4 * first, low_third);
    load_words<kCount>(block + 16 + 4 * first, high_third);
    const int shift = 2 * (group & 3);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      low[i] = centred<3>(((low[i] >> shift) & each_byte(3)) | (((low_third[i] >> group) & each_byte(1)) << 2));
      high[i] = centred<3>(((high[i] >> shift) & each_byte(3)) | (((high_third[i] >> group) & each_byte(1)) << 2));
    }
  }
  static __device__ GroupScale scale(const uint8_t* block, int group) {
    const float unit = half_at(block + 108);
    const uint8_t* lower = block + 96 + 2 * (group & 3);
    const uint8_t* upper = block + 104 + 2 * (group & 1);
    const auto scale = [&](int i) {
      const int four = (lower[i] >> (group >> 2 << 2)) & 15, two = (upper[i] >> (group >> 1 << 1)) & 3;
      return unit * static_cast<float>((four | two << 4) - 32);
    };
    return {scale(0), scale(1)};
  }
};

template <>
struct Blocks<WeightFormat::kQ6_K> {
  static constexpr int kBytes = 210, kElements = 256;
  static constexpr bool kMinimum = false, kHalves = true;
  template <int kCount>
  static __device__ void codes(const uint8_t* block, int group, int first, Words<kCount>& low, Words<kCount>& high) {
    const int half = group >> 2, quarter = group & 3;
    const uint8_t* pairs = block + 64 * half + 32 * (quarter & 1) + 4 * first;
    const uint8_t* uppers = block + 128 + 32 * half + 4 * first;
    Words<kCount> low_upper, high_upper;
    load_words<kCount>(pairs, low);
    load_words<kCount>(pairs + 16, high);
    load_words<kCount>(uppers, low_upper);
    load_words<kCount>(uppers + 16, high_upper);
    const int shift = 4 * (quarter >> 1);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const uint32_t low_bits = (low_upper[i] >> (2 * quarter)) & each_byte(3);
      const uint32_t high_bits = (high_upper[i] >> (2 * quarter)) & each_byte(3);
      low[i] = centred<6>(((low[i] >> shift) & each_byte(15)) | (low_bits << 4));
      high[i] = centred<6>(((high[i] >> shift) & each_byte(15)) | (high_bits << 4));
    }
  }
  static __device__ GroupScale scale(const uint8_t* block, int group) {
    const float unit = half_at(block + 208);
    const auto* scales = reinterpret_cast<const int8_t*>(block + 192 + 2 * group);
    return {unit * static_cast<float>(scales[0]), unit * static_cast<float>(scales[1])};
  }
};

}  // namespace ocellus::cuda
