// Weights in the form of the kernels, read from the blocks of the files (quant/block_codes.h). A group is 32 weights;
// its codes are eight words, word i holding weights 4i..4i + 3 as int8.
//
//   weight = scale * code - minimum        kHalves: `second` is the scale of the group's second half, words 4..7
//
// In Q2_K the halves of a group have minimums of their own, `second` times an integer: kHalfMinimums.
//
// Every function takes words `first`..`first + kCount - 1` as `low` and the words four after them as `high`: nibbles
// that share a byte belong to such words. kCount is 1, 2 or 4. Blocks may lie in any memory, at even addresses, those
// of MXFP4 at any.
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

template <WeightFormat kFormat>
inline constexpr bool kHalfMinimums = kFormat == WeightFormat::kQ2_K;

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

/// Levels of nibbles (quant/block_codes.cpp), four per word.
struct NonLinearLevels {
  static __device__ uint32_t word(int i) {
    constexpr uint32_t kWords[4] = {0xBFAD9881u, 0xF6EADDCFu, 0x26190D01u, 0x71594535u};
    return kWords[i];
  }
};
struct FloatLevels {
  static __device__ uint32_t word(int i) {
    constexpr uint32_t kWords[4] = {0x03020100u, 0x0C080604u, 0xFDFEFF00u, 0xF4F8FAFCu};
    return kWords[i];
  }
};

/// Returns the levels of the four nibbles in the lower half of `nibbles`.
template <class Levels>
__device__ inline uint32_t levels_of(uint32_t nibbles) {
  const uint32_t within = nibbles & 0x7777u;
  const uint32_t lower = __byte_perm(Levels::word(0), Levels::word(1), within);
  const uint32_t upper = __byte_perm(Levels::word(2), Levels::word(3), within);
  return __byte_perm(lower, upper, 0x3210u | ((nibbles & 0x8888u) >> 1));
}

/// Returns the levels of the low nibbles at p, and of the high ones.
template <class Levels, int kCount, int kAlignment>
__device__ inline void load_levels(const uint8_t* p, Words<kCount>& low, Words<kCount>& high) {
  load_words<kCount, kAlignment>(p, high);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    // low and high alternate
    const uint32_t front = levels_of<Levels>(high[i]), back = levels_of<Levels>(high[i] >> 16);
    low[i] = __byte_perm(front, back, 0x6420u);
    high[i] = __byte_perm(front, back, 0x7531u);
  }
}

template <>
struct Blocks<WeightFormat::kIQ4_NL> {
  static constexpr int kBytes = 18, kElements = 32;
  static constexpr bool kMinimum = false, kHalves = false;
  template <int kCount>
  static __device__ void codes(const uint8_t* block, int, int first, Words<kCount>& low, Words<kCount>& high) {
    load_levels<NonLinearLevels, kCount, 2>(block + 2 + 4 * first, low, high);
  }
  static __device__ GroupScale scale(const uint8_t* block, int) { return {half_at(block), 0.0f}; }
};

template <>
struct Blocks<WeightFormat::kMXFP4> {
  static constexpr int kBytes = 17, kElements = 32;
  static constexpr bool kMinimum = false, kHalves = false;
  template <int kCount>
  static __device__ void codes(const uint8_t* block, int, int first, Words<kCount>& low, Words<kCount>& high) {
    load_levels<FloatLevels, kCount, 1>(block + 1 + 4 * first, low, high);
  }
  static __device__ GroupScale scale(const uint8_t* block, int) {
    const uint32_t exponent = *block;
    return {__uint_as_float(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23), 0.0f};
  }
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
