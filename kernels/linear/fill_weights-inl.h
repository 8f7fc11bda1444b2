// What both backends write in fill_weights: the bytes of every format, as a function of their place.
//
// Words of 8 bytes are drawn from a counter. In a block format all bytes are codes but one run of each block, which
// holds the scales. That run starts and ends on even places in all formats, so a word is put together from four pairs
// of bytes.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "quant/weight_format.h"

#if defined(__CUDACC__)
#include <cuda_fp16.h>
#define OCELLUS_ON_BOTH __host__ __device__
#else
#define OCELLUS_ON_BOTH
#endif

namespace ocellus::fill {

inline constexpr int64_t kWordBytes = 8;

/// SplitMix64 (Steele, Lea and Flood 2014) at place `index`.
OCELLUS_ON_BOTH inline uint64_t random_word(uint64_t seed, int64_t index) {
  uint64_t z = seed + (static_cast<uint64_t>(index) + 1) * 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

/// The run of scales that every block has at the same place.
struct ScaleRun {
  uint32_t block_bytes = 0;
  uint32_t begin = 0;
  uint32_t bytes = 0;
  uint16_t pairs[9] = {};  // two bytes each
};

/// Scales and the deviation that evenly distributed codes have at scale 1.
inline ScaleRun scale_run(WeightFormat format, float deviation) {
  // A group of Q4_K, Q5_K and Q6_K has a whole number for its scale; all get this one, which keeps the block's own
  // scale a normal f16 number.
  constexpr int kGroupScale = 8;
  const auto half = [](float value) { return float_to_half(value).bits; };
  ScaleRun run;
  run.block_bytes = static_cast<uint32_t>(format_info(format).block_bytes);
  const auto scale_and_minimum = [&](float code_deviation, float minimum) {
    run.bytes = 4;
    run.pairs[0] = half(deviation / code_deviation);
    run.pairs[1] = half(deviation / code_deviation * minimum);
  };
  const auto scale_only = [&](float code_deviation) {
    run.bytes = 2;
    run.pairs[0] = half(deviation / code_deviation);
  };
  const auto group_scales = [&](float code_deviation, float minimum) {
    scale_and_minimum(code_deviation * kGroupScale, minimum);
    run.bytes = 16;  // then scales and minimums of groups 0-3, 0-3, and both of groups 4-7 in one byte
    for (int i = 2; i < 6; ++i) run.pairs[i] = kGroupScale * 0x0101;
    for (int i = 6; i < 8; ++i) run.pairs[i] = kGroupScale * 0x1111;
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
      scale_only(18.48f * kGroupScale);
      run.begin = 192;
      run.bytes = 18;
      run.pairs[8] = run.pairs[0];
      for (int i = 0; i < 8; ++i) run.pairs[i] = kGroupScale * 0x0101;
      break;
    default: break;
  }
  return run;
}

/// The next word of a block format. `at` is where in its block the word begins, and moves on.
OCELLUS_ON_BOTH inline uint64_t block_word(const ScaleRun& run, uint64_t random, uint32_t* at) {
  uint64_t word = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t place = *at - run.begin;  // wraps to something large before the run
    const uint64_t pair = place < run.bytes ? run.pairs[place / 2] : (random >> (16 * i)) & 0xFFFFu;
    word |= pair << (16 * i);
    *at = *at + 2 == run.block_bytes ? 0 : *at + 2;
  }
  return word;
}

/// Half the width of the even distribution with this deviation.
inline float spread_of(float deviation) { return deviation * 1.7320508f; }

OCELLUS_ON_BOTH inline uint16_t half_bits(float value) {
#if defined(__CUDA_ARCH__)
  return __half_as_ushort(__float2half_rn(value));
#else
  return float_to_half(value).bits;
#endif
}

OCELLUS_ON_BOTH inline uint32_t float_bits(float value) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(value);
#else
  return std::bit_cast<uint32_t>(value);
#endif
}

/// A word of two F32, four F16 or four BF16 weights.
template <WeightFormat kFormat>
OCELLUS_ON_BOTH inline uint64_t plain_word(uint64_t random, float mean, float spread) {
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
