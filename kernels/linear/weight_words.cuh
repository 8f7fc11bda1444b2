// Words of weights: loads from addresses that may only be even, and arithmetic on four small integers in a word.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/base/device_math.cuh"
#include "quant/weight_format.h"

namespace ocellus::cuda {

template <int kCount>
using Words = uint32_t[kCount];

__device__ inline float half_at(const uint8_t* p) { return __half2float(*reinterpret_cast<const __half*>(p)); }

/// Loads words at an even address, or at any, by whole-word loads. If the address is no multiple of four, up to three
/// bytes before and after are read with them; these bytes belong to the same matrix.
template <int kCount, int kAlignment = 2>
__device__ inline void load_words(const uint8_t* p, Words<kCount>& out) {
  const uint32_t beyond = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(p)) & (4 - kAlignment);
  const uint32_t missing = kAlignment == 2 ? beyond : (4 - beyond) & 3;  // to the next multiple of four
  const auto* words = reinterpret_cast<const uint32_t*>(p - beyond);
  uint32_t word = words[0];
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const bool last = i == kCount - 1;
    const uint32_t next = last ? *reinterpret_cast<const uint32_t*>(p + 4 * kCount - 4 + missing) : words[i + 1];
    out[i] = __funnelshift_r(word, next, 8 * beyond);
    word = next;
  }
}

/// Words at a multiple of 4 kCount.
template <int kCount>
__device__ inline void load_aligned(const uint8_t* p, Words<kCount>& out) {
  if constexpr (kCount == 4) {
    const uint4 words = *reinterpret_cast<const uint4*>(p);
    out[0] = words.x, out[1] = words.y, out[2] = words.z, out[3] = words.w;
  } else {
    out[0] = *reinterpret_cast<const uint32_t*>(p);
  }
}

__host__ __device__ constexpr uint32_t each_byte(uint32_t value) { return 0x01010101u * value; }

/// Four codes of `kBits` bits in bytes, minus 2^(kBits - 1): the upper bits of a byte are copies of its sign.
template <int kBits>
__device__ inline uint32_t centred(uint32_t codes) {
  constexpr uint32_t kSign = 1u << (kBits - 1);
  const uint32_t flipped = codes ^ each_byte(kSign);
  return flipped + (flipped & each_byte(kSign)) * (256 / kSign - 2);
}

/// Bits 0..3, each as bit 4 of a byte.
__device__ inline uint32_t spread_to_fifth(uint32_t bits) { return (((bits & 15) * 0x00204081u) & each_byte(1)) << 4; }

/// Byte `at` of a word as float: the bits of 2^23 + byte, less 2^23.
__device__ inline float byte_value(uint32_t word, int at) {
  return __uint_as_float(__byte_perm(word, 0x4B000000u, 0x7540u + static_cast<uint32_t>(at))) - 8388608.0f;
}

constexpr bool is_plain(WeightFormat format) {
  return format == WeightFormat::kF32 || format == WeightFormat::kF16 || format == WeightFormat::kBF16;
}

__device__ inline uint32_t pack_halves(float x, float y) {
  const __half2 pair = round_half2(x, y);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
__device__ inline uint32_t bfloat_pair_as_halves(uint32_t pair) {
  return pack_halves(__uint_as_float(pair << 16), __uint_as_float(pair & 0xFFFF0000u));
}

/// Eight plain weights as f16, from an address that is a multiple of 16.
template <WeightFormat kFormat>
__device__ inline uint4 load_eight_halves(const uint8_t* p) {
  const uint4 words = *reinterpret_cast<const uint4*>(p);
  if constexpr (kFormat == WeightFormat::kF16) return words;
  if constexpr (kFormat == WeightFormat::kBF16)
    return {bfloat_pair_as_halves(words.x), bfloat_pair_as_halves(words.y), bfloat_pair_as_halves(words.z),
            bfloat_pair_as_halves(words.w)};
  const float4 a = *reinterpret_cast<const float4*>(p), b = *reinterpret_cast<const float4*>(p + 16);
  return {pack_halves(a.x, a.y), pack_halves(a.z, a.w), pack_halves(b.x, b.y), pack_halves(b.z, b.w)};
}

}  // namespace ocellus::cuda
