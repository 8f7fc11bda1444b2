// Decoders as in block_decoders.cuh, for the formats with blocks of 256: Q4_K, Q5_K and Q6_K.
#pragma once

#include "kernels/linear/block_decoders.cuh"

namespace ocellus::cuda {

/// Scale and minimum of group 0..7 of a Q4_K or Q5_K block: six bits each in twelve shared bytes, times a half.
__device__ inline float2 read_group_scale(const uint8_t* block, int group) {
  const uint8_t* packed = block + 4 + group % 4;
  const uint32_t first = __ldg(packed), second = __ldg(packed + 4), third = __ldg(packed + 8);
  const bool early = group < 4;
  const uint32_t scale = early ? first & 63u : (third & 15u) | first >> 6 << 4;
  const uint32_t minimum = early ? second & 63u : third >> 4 | second >> 6 << 4;
  const uint32_t halves = __ldg(reinterpret_cast<const unsigned*>(block));
  return {float_of_half(halves) * static_cast<float>(scale), float_of_half(halves >> 16) * static_cast<float>(minimum)};
}

// Groups of 32: group g has the low (even g) or high (odd g) nibbles of the g / 2-th 32 bytes.
struct DecodeQ4_K {
  static constexpr int kBytes = 144, kElements = 256;
  __device__ static void eight(const uint8_t* block, int part, float (&out)[8]) {
    const int group = part / 4;
    const float2 scale = read_group_scale(block, group);
    const uint2 bytes = read_eight_bytes<8>(block + 16 + 32 * (group / 2) + 8 * (part % 4));
    const uint2 codes = nibbles_of(bytes, 4 * (group % 2));
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = scale.x * static_cast<float>(byte_of(codes, i)) - scale.y;
  }
};

struct DecodeQ5_K {
  static constexpr int kBytes = 176, kElements = 256;
  __device__ static void eight(const uint8_t* block, int part, float (&out)[8]) {
    const int group = part / 4;
    const float2 scale = read_group_scale(block, group);
    const uint2 high = read_eight_bytes<8>(block + 16 + 8 * (part % 4));  // bit g: fifth bit in group g
    const uint2 bytes = read_eight_bytes<8>(block + 48 + 32 * (group / 2) + 8 * (part % 4));
    const uint2 codes = nibbles_of(bytes, 4 * (group % 2));
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const uint32_t code = byte_of(codes, i) | (byte_of(high, i) >> group & 1u) << 4;
      out[i] = scale.x * static_cast<float>(code) - scale.y;
    }
  }
};

// Two halves of 128. In each, elements 32 q + j take a nibble of byte j + 32 (q & 1), the high one from q = 2 on, and
// bits 2q and 2q + 1 of byte j of the upper bits.
struct DecodeQ6_K {
  static constexpr int kBytes = 210, kElements = 256;
  __device__ static void eight(const uint8_t* block, int part, float (&out)[8]) {
    const int half = part / 16, quarter = part % 16 / 4, j = 8 * (part % 4);
    const float scale = read_half(block + 208) * static_cast<float>(static_cast<int8_t>(__ldg(block + 192 + part / 2)));
    const uint2 low = nibbles_of(read_eight_bytes<2>(block + 64 * half + 32 * (quarter & 1) + j), 4 * (quarter / 2));
    const uint2 high = read_eight_bytes<2>(block + 128 + 32 * half + j);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const uint32_t code = byte_of(low, i) | (byte_of(high, i) >> (2 * quarter) & 3u) << 4;
      out[i] = scale * static_cast<float>(static_cast<int>(code) - 32);
    }
  }
};

}  // namespace ocellus::cuda
