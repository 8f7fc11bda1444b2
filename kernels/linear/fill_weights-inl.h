// The values of fill_weights on both backends: the bytes of every format, as a function of their place.
//
// Words of 8 bytes are drawn from a counter. In a block format all bytes are codes except one run of each block, which
// holds the scales.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/base/hash_term.h"
#include "platform/everywhere.h"
#include "quant/weight_format.h"

#if defined(__CUDACC__)
#include <cuda_fp16.h>
#endif

namespace ocellus::fill {

inline constexpr uint32_t kWordBytes = 8;

inline constexpr uint64_t kSeedStep = 0x9E3779B97F4A7C15ull;  // from one word to the next

/// SplitMix64 (Steele, Lea and Flood 2014) at place `index`.
OCELLUS_EVERYWHERE inline uint64_t random_word(uint64_t seed, int64_t index) {
  return mix_bits(seed + (static_cast<uint64_t>(index) + 1) * kSeedStep);
}

/// The run of scales, at the same place in every block. It may wrap around to the start of the next block.
struct ScaleRun {
  uint32_t block_bytes = 0;
  uint32_t begin = 0;
  uint32_t bytes = 0;
  uint32_t larger_blocks = 0;  // number of blocks in 256 whose first byte of the run is one more
  uint8_t values[20] = {};
};

/// Returns the scales, and the deviation of uniformly distributed codes at scale 1.
inline ScaleRun scale_run(WeightFormat format, float deviation) {
  // A group of Q2_K to Q6_K has an integer scale; all get this one, which keeps the block's own scale a normal f16
  // number.
  constexpr int kGroupScale = 8;
  ScaleRun run;
  run.block_bytes = static_cast<uint32_t>(format_info(format).block_bytes);
  const auto add_bytes = [&](int count, int value) {
    for (int i = 0; i < count; ++i) run.values[run.bytes++] = static_cast<uint8_t>(value);
  };
  const auto add_half = [&](float value) {
    const uint16_t bits = float_to_half(value).bits;
    add_bytes(1, bits & 255);
    add_bytes(1, bits >> 8);
  };
  const auto scale_only = [&](float code_deviation) { add_half(deviation / code_deviation); };
  const auto scale_and_minimum = [&](float code_deviation, float minimum) {
    scale_only(code_deviation);
    add_half(deviation / code_deviation * minimum);
  };
  const auto group_scales = [&](float code_deviation, float minimum) {
    scale_and_minimum(code_deviation * kGroupScale, minimum);
    add_bytes(8, kGroupScale);         // scales of groups 0-3, minimums of groups 0-3,
    add_bytes(4, kGroupScale * 0x11);  // and both of groups 4-7 in one byte
  };
  switch (format) {
    case WeightFormat::kQ8_0: scale_only(73.90f); break;
    case WeightFormat::kQ4_0: scale_only(4.637f); break;
    case WeightFormat::kQ5_0: scale_only(9.247f); break;
    case WeightFormat::kIQ4_NL: scale_only(67.44f); break;
    case WeightFormat::kQ4_1: scale_and_minimum(4.610f, -7.5f); break;
    case WeightFormat::kQ5_1: scale_and_minimum(9.233f, -15.5f); break;
    case WeightFormat::kQ4_K: group_scales(4.610f, 7.5f); break;
    case WeightFormat::kQ5_K: group_scales(9.233f, 15.5f); break;
    case WeightFormat::kQ6_K:
      run.begin = 192;
      add_bytes(16, kGroupScale);
      scale_only(18.48f * kGroupScale);
      break;
    case WeightFormat::kQ2_K:
      run.begin = 80;
      scale_and_minimum(1.118f * kGroupScale, 1.5f);
      add_bytes(16, kGroupScale * 0x11);
      break;
    case WeightFormat::kQ3_K:
      run.begin = 96;
      add_bytes(8, kGroupScale * 0x11);
      add_bytes(4, 0x99);  // upper bits: groups are scaled by 8 and -8, because codes reach one further down than up
      scale_only(2.345f * kGroupScale);
      break;
    case WeightFormat::kIQ4_XS:
      scale_only(67.44f);
      add_bytes(2, 0xAA);  // 33, which means 1: upper bits
      add_bytes(4, 0x11);
      break;
    case WeightFormat::kMXFP4: {  // some blocks have the power of two below the scale, the others that above it
      int exponent = 0;
      const float fraction = std::frexp(deviation / 5.852f, &exponent);
      add_bytes(1, 127 + exponent);
      run.larger_blocks = static_cast<uint32_t>(256 * (4 * fraction * fraction - 1) / 3);
      break;
    }
    default: break;
  }
  return run;
}

/// Returns the next word of a block format. `at` is the word's offset in its block, and is advanced.
OCELLUS_EVERYWHERE inline uint64_t block_word(const ScaleRun& run, uint64_t random, uint32_t* at) {
  uint32_t place = *at + (*at < run.begin ? run.block_bytes : 0) - run.begin;  // after the start of the run
  *at += kWordBytes;
  if (*at >= run.block_bytes) *at -= run.block_bytes;
  if (place >= run.bytes && place + kWordBytes <= run.block_bytes) return random;
  uint64_t word = 0;
  for (uint32_t i = 0; i < kWordBytes; ++i) {
    uint64_t byte = (random >> (8 * i)) & 0xFFu;
    if (place < run.bytes) byte = run.values[place] + (place == 0 && byte < run.larger_blocks ? 1u : 0u);
    word |= byte << (8 * i);
    if (++place == run.block_bytes) place = 0;
  }
  return word;
}

/// Half the width of the uniform distribution with this deviation.
inline float spread_of(float deviation) { return deviation * 1.7320508f; }

OCELLUS_EVERYWHERE inline uint16_t half_bits(float value) {
#if defined(__CUDA_ARCH__)
  return __half_as_ushort(__float2half_rn(value));
#else
  return float_to_half(value).bits;
#endif
}

OCELLUS_EVERYWHERE inline uint32_t float_bits(float value) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(value);
#else
  return std::bit_cast<uint32_t>(value);
#endif
}

/// A word of two F32, four F16 or four BF16 weights.
template <WeightFormat kFormat>
OCELLUS_EVERYWHERE inline uint64_t plain_word(uint64_t random, float mean, float spread) {
  if constexpr (kFormat == WeightFormat::kF32) {
    const float step = spread * 0x1p-31f;
    const auto value = [&](uint64_t bits) {
      return uint64_t{float_bits(mean + step * static_cast<float>(static_cast<int32_t>(static_cast<uint32_t>(bits))))};
    };
    return value(random) | value(random >> 32) << 32;
  } else {
    const float step = spread * 0x1p-15f;
    uint64_t word = 0;
    for (int i = 0; i < 4; ++i) {
      const auto code = static_cast<int16_t>(static_cast<uint16_t>(random >> (16 * i)));
      const float value = mean + step * static_cast<float>(code);
      uint64_t bits = 0;
      if constexpr (kFormat == WeightFormat::kF16) {
        bits = half_bits(value);
      } else {  // BF16, to nearest even
        const uint32_t wide = float_bits(value);
        bits = (wide + 0x7FFFu + ((wide >> 16) & 1u)) >> 16;
      }
      word |= bits << (16 * i);
    }
    return word;
  }
}

}  // namespace ocellus::fill
