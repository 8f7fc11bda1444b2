// Decoders of weight blocks on the device: eight consecutive weights as floats, bit-equal to quant/. One type per
// format; this file has the plain formats, as blocks of eight, and those with blocks of 32.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

namespace ocellus::cuda {

__device__ inline uint32_t read_u16(const uint8_t* p) { return __ldg(reinterpret_cast<const unsigned short*>(p)); }
/// Converts the f16 in the low bits.
__device__ inline float float_of_half(uint32_t bits) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}
__device__ inline float read_half(const uint8_t* p) { return float_of_half(read_u16(p)); }

/// Eight bytes from an address that is a multiple of kAlignment.
template <int kAlignment>
__device__ inline uint2 read_eight_bytes(const uint8_t* p) {
  if constexpr (kAlignment == 8) return __ldg(reinterpret_cast<const uint2*>(p));
  if constexpr (kAlignment == 4) {
    const auto* words = reinterpret_cast<const unsigned*>(p);
    return {__ldg(words), __ldg(words + 1)};
  }
  return {read_u16(p) | read_u16(p + 2) << 16, read_u16(p + 4) | read_u16(p + 6) << 16};
}

/// Byte i of the eight.
__device__ inline uint32_t byte_of(uint2 bytes, int i) {
  return ((i < 4 ? bytes.x : bytes.y) >> (8 * (i % 4))) & 0xFFu;
}
/// One nibble of each byte: the low ones, or with a shift of 4 the high ones.
__device__ inline uint2 nibbles_of(uint2 bytes, int shift) {
  return {(bytes.x >> shift) & 0x0F0F0F0Fu, (bytes.y >> shift) & 0x0F0F0F0Fu};
}

// One type per format. eight(): weights 8 part .. 8 part + 7 of a block.

struct DecodeF32 {
  static constexpr int kBytes = 32, kElements = 8;
  __device__ static void eight(const uint8_t* block, int, float (&out)[8]) {
    const float4 low = __ldg(reinterpret_cast<const float4*>(block)),
                 high = __ldg(reinterpret_cast<const float4*>(block) + 1);
    out[0] = low.x, out[1] = low.y, out[2] = low.z, out[3] = low.w;
    out[4] = high.x, out[5] = high.y, out[6] = high.z, out[7] = high.w;
  }
};

/// Calls use(i, bits) for eight 16-bit numbers.
template <class Use>
__device__ inline void for_eight_u16(const uint8_t* block, Use use) {
  const uint4 pairs = __ldg(reinterpret_cast<const uint4*>(block));
  const uint32_t words[4] = {pairs.x, pairs.y, pairs.z, pairs.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    use(2 * i, words[i] & 0xFFFFu);
    use(2 * i + 1, words[i] >> 16);
  }
}

struct DecodeF16 {
  static constexpr int kBytes = 16, kElements = 8;
  __device__ static void eight(const uint8_t* block, int, float (&out)[8]) {
    for_eight_u16(block, [&](int i, uint32_t bits) { out[i] = float_of_half(bits); });
  }
};

struct DecodeBF16 {
  static constexpr int kBytes = 16, kElements = 8;
  __device__ static void eight(const uint8_t* block, int, float (&out)[8]) {
    for_eight_u16(block, [&](int i, uint32_t bits) { out[i] = __uint_as_float(bits << 16); });
  }
};

struct DecodeQ8_0 {
  static constexpr int kBytes = 34, kElements = 32;
  __device__ static void eight(const uint8_t* block, int part, float (&out)[8]) {
    const float scale = read_half(block);
    const uint2 codes = read_eight_bytes<2>(block + 2 + 8 * part);
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = scale * static_cast<float>(static_cast<int8_t>(byte_of(codes, i)));
  }
};

// Blocks of 32 with nibbles: byte j holds elements j and j + 16.
template <int kAlignment>
__device__ inline uint2 read_nibbles(const uint8_t* nibbles, int part) {
  return nibbles_of(read_eight_bytes<kAlignment>(nibbles + 8 * (part & 1)), 4 * (part >> 1));
}

struct DecodeQ4_0 {
  static constexpr int kBytes = 18, kElements = 32;
  __device__ static void eight(const uint8_t* block, int part, float (&out)[8]) {
    const float scale = read_half(block);
    const uint2 codes = read_nibbles<2>(block + 2, part);
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = scale * static_cast<float>(static_cast<int>(byte_of(codes, i)) - 8);
  }
};

struct DecodeQ4_1 {
  static constexpr int kBytes = 20, kElements = 32;
  __device__ static void eight(const uint8_t* block, int part, float (&out)[8]) {
    const float scale = read_half(block), low = read_half(block + 2);
    const uint2 codes = read_nibbles<4>(block + 4, part);
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = scale * static_cast<float>(byte_of(codes, i)) + low;
  }
};

struct DecodeQ5_0 {
  static constexpr int kBytes = 22, kElements = 32;
  __device__ static void eight(const uint8_t* block, int part, float (&out)[8]) {
    const float scale = read_half(block);
    const uint2 codes = read_nibbles<2>(block + 6, part);
    const uint32_t fifth = __ldg(block + 2 + part);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const uint32_t code = byte_of(codes, i) | (fifth >> i & 1u) << 4;
      out[i] = scale * static_cast<float>(static_cast<int>(code) - 16);
    }
  }
};

struct DecodeQ5_1 {
  static constexpr int kBytes = 24, kElements = 32;
  __device__ static void eight(const uint8_t* block, int part, float (&out)[8]) {
    const float scale = read_half(block), low = read_half(block + 2);
    const uint2 codes = read_nibbles<4>(block + 8, part);
    const uint32_t fifth = __ldg(block + 4 + part);
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = scale * static_cast<float>(byte_of(codes, i) | (fifth >> i & 1u) << 4) + low;
  }
};

}  // namespace ocellus::cuda
