// The formats of weight_codes.cuh whose blocks hold 256 weights.
#pragma once

#include <cstdint>

#include "kernels/linear/weight_codes.cuh"

namespace ocellus::cuda {

/// Scale and minimum of a group of Q4_K or Q5_K: eight times two numbers of 6 bits in twelve bytes, times a half each.
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
