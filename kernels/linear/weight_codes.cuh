// Weights as the kernels use them, read from the blocks of the files (quant/block_codes.h). A group is 32 weights; its
// codes are eight words, word i holding weights 4i..4i + 3 as int8.
//
//   weight = scale * code - minimum        Q6_K: `second` is the scale of the group's second half, words 4..7
//
// Every function takes words `first`..`first + kCount - 1` as `low` and the words four behind them as `high`: nibbles
// that share a byte belong to such words. kCount is 1 or 4. Blocks may lie in any memory, at even addresses.
#pragma once

#include <cstdint>

#include "kernels/linear/weight_words.cuh"

namespace ocellus::cuda {

struct GroupScale {
  float scale;
  float second;  // the minimum, or the scale of the second half
};

template <WeightFormat kFormat>
struct Blocks;

template <>
struct Blocks<WeightFormat::kQ8_0> {
  static constexpr int kBytes = 34, kElements = 32;
  static constexpr bool kMinimum = false, kHalves = false;
  template <int kCount>
  static __device__ void codes(const uint8_t* block, int, int first, Words<kCount>& low, Words<kCount>& high) {
    load_words<kCount>(block + 2 + 4 * first, low);
    load_words<kCount>(block + 18 + 4 * first, high);
  }
  static __device__ GroupScale scale(const uint8_t* block, int) { return {half_at(block), 0.0f}; }
};

template <>
struct Blocks<WeightFormat::kQ4_0> {
  static constexpr int kBytes = 18, kElements = 32;
  static constexpr bool kMinimum = false, kHalves = false;
  template <int kCount>
  static __device__ void codes(const uint8_t* block, int, int first, Words<kCount>& low, Words<kCount>& high) {
    load_words<kCount>(block + 2 + 4 * first, high);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      low[i] = centred<4>(high[i] & each_byte(15));
      high[i] = centred<4>((high[i] >> 4) & each_byte(15));
    }
  }
  static __device__ GroupScale scale(const uint8_t* block, int) { return {half_at(block), 0.0f}; }
};

template <>
struct Blocks<WeightFormat::kQ4_1> {
  static constexpr int kBytes = 20, kElements = 32;
  static constexpr bool kMinimum = true, kHalves = false;
  template <int kCount>
  static __device__ void codes(const uint8_t* block, int, int first, Words<kCount>& low, Words<kCount>& high) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const uint32_t pairs = *reinterpret_cast<const uint32_t*>(block + 4 + 4 * (first + i));
      low[i] = pairs & each_byte(15);
      high[i] = (pairs >> 4) & each_byte(15);
    }
  }
  static __device__ GroupScale scale(const uint8_t* block, int) { return {half_at(block), -half_at(block + 2)}; }
};

/// The levels of IQ4_NL (quant/block_codes.cpp), four to a word.
__device__ inline uint32_t level_word(int i) {
  constexpr uint32_t kLevels[4] = {0xBFAD9881u, 0xF6EADDCFu, 0x26190D01u, 0x71594535u};
  return kLevels[i];
}

template <>
struct Blocks<WeightFormat::kIQ4_NL> {
  static constexpr int kBytes = 18, kElements = 32;
  static constexpr bool kMinimum = false, kHalves = false;
  /// The levels of the four nibbles in the lower half of `nibbles`.
  static __device__ uint32_t levels(uint32_t nibbles) {
    const uint32_t within = nibbles & 0x7777u;
    const uint32_t lower = __byte_perm(level_word(0), level_word(1), within);
    const uint32_t upper = __byte_perm(level_word(2), level_word(3), within);
    return __byte_perm(lower, upper, 0x3210u | ((nibbles & 0x8888u) >> 1));
  }
  template <int kCount>
  static __device__ void codes(const uint8_t* block, int, int first, Words<kCount>& low, Words<kCount>& high) {
    load_words<kCount>(block + 2 + 4 * first, high);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const uint32_t front = levels(high[i]), back = levels(high[i] >> 16);  // low and high nibbles by turns
      low[i] = __byte_perm(front, back, 0x6420u);
      high[i] = __byte_perm(front, back, 0x7531u);
    }
  }
  static __device__ GroupScale scale(const uint8_t* block, int) { return {half_at(block), 0.0f}; }
};

template <>
struct Blocks<WeightFormat::kQ5_0> {
  static constexpr int kBytes = 22, kElements = 32;
  static constexpr bool kMinimum = false, kHalves = false;
  template <int kCount>
  static __device__ void codes(const uint8_t* block, int, int first, Words<kCount>& low, Words<kCount>& high) {
    Words<1> fifth;
    load_words<1>(block + 2, fifth);
    load_words<kCount>(block + 6 + 4 * first, high);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const uint32_t bits = fifth[0] >> (4 * (first + i));
      low[i] = centred<5>((high[i] & each_byte(15)) | spread_to_fifth(bits));
      high[i] = centred<5>(((high[i] >> 4) & each_byte(15)) | spread_to_fifth(bits >> 16));
    }
  }
  static __device__ GroupScale scale(const uint8_t* block, int) { return {half_at(block), 0.0f}; }
};

template <>
struct Blocks<WeightFormat::kQ5_1> {
  static constexpr int kBytes = 24, kElements = 32;
  static constexpr bool kMinimum = true, kHalves = false;
  template <int kCount>
  static __device__ void codes(const uint8_t* block, int, int first, Words<kCount>& low, Words<kCount>& high) {
    const uint32_t fifth = *reinterpret_cast<const uint32_t*>(block + 4);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const uint32_t pairs = *reinterpret_cast<const uint32_t*>(block + 8 + 4 * (first + i));
      const uint32_t bits = fifth >> (4 * (first + i));
      low[i] = (pairs & each_byte(15)) | spread_to_fifth(bits);
      high[i] = ((pairs >> 4) & each_byte(15)) | spread_to_fifth(bits >> 16);
    }
  }
  static __device__ GroupScale scale(const uint8_t* block, int) { return {half_at(block), -half_at(block + 2)}; }
};

}  // namespace ocellus::cuda
