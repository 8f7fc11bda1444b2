// One warp's part of decode attention over tiles that may be packed: up to 64 slots at a time, up to 8 query heads.
//
// Codes are loaded from shared memory into the fragments of the matrix products unchanged (packed_codes.h): one
// ldmatrix loads four 8 x 8 matrices of halves, [slots, halves] for keys and transposed for values. Keys' steps and
// offsets are folded into the query and a constant. Values' are not needed while tiles of one block follow each other:
// the sums are kept as sums of numbers, in units of the steps, and converted to plain sums and to the next block's
// units in between (packed_sums.cuh).
#pragma once

#include "kernels/attention/step/block_scales.cuh"
#include "kernels/attention/step/f16_tile.cuh"
#include "kernels/attention/step/packed_codes.h"

namespace ocellus::cuda {

__device__ inline uint32_t multiply_halves(uint32_t x, uint32_t y) {
  uint32_t to;
  asm("mul.rn.f16x2 %0, %1, %2;\n" : "=r"(to) : "r"(x), "r"(y));
  return to;
}
/// Infinities become the largest numbers; NaN stays NaN.
__device__ inline uint32_t clamp_halves(uint32_t x) {
  uint32_t to;
  asm("{\n.reg .b32 least;\nmin.NaN.f16x2 least, %1, %2;\nmax.NaN.f16x2 %0, least, %3;\n}\n"
      : "=r"(to)
      : "r"(x), "r"(0x7BFF7BFFu), "r"(0xFBFFFBFFu));
  return to;
}
__device__ inline float low_of(uint32_t halves) { return __half2float(__ushort_as_half(halves & 0xFFFF)); }
__device__ inline float high_of(uint32_t halves) { return __half2float(__ushort_as_half(halves >> 16)); }

/// The queries folded with one block's scales: a head's scores, as powers of two, are base + 2^kScoreExponent *
/// (products of `numbers` with the keys' codes).
template <class Shape>
struct PackedQuery {
  using Codes = typename Shape::Codes;
  uint32_t numbers[Shape::kUnits][Shape::kPerHalf];  // head `row`, word `column` of each unit
  float base[2];                                     // heads 2 column and 2 column + 1

  /// query: that of head `row`, zeros after its last channel.
  __device__ void fold(const __half* query, const BlockScales& scales, int column) {
    constexpr int kWords = Shape::kWordChannels / 2;
    float offset[4] = {};
#pragma unroll
    for (int unit = 0; unit < Shape::kUnits; ++unit) {
      const int channel = Shape::first_channel(unit, 2 * column);
      uint32_t queries[kWords], steps[kWords], offsets[kWords];
      scales.load_if(channel < scales.dim, kKeySteps, channel, steps);
      scales.load_if(channel < scales.dim, kKeyOffsets, channel, offsets);
      copy_words(query + channel, queries);
      // Every slot has the offsets: a product with them as if they were the keys of all slots.
#pragma unroll
      for (int i = 0; i < kWords; i += 2) {
        const uint32_t keys[4] = {offsets[i], offsets[i], offsets[i + 1], offsets[i + 1]};
        multiply_add(offset, keys, queries[i], queries[i + 1]);
      }
#pragma unroll
      for (int i = 0; i < kWords; ++i) queries[i] = multiply_halves(queries[i], steps[i]);
#pragma unroll
      for (int i = 0; i < Shape::kPerHalf; ++i) {
        const int low = Codes::channel(i), high = low + Shape::kPerHalf;
        const uint32_t both = __byte_perm(queries[low / 2], queries[high / 2], low % 2 == 0 ? 0x5410 : 0x7632);
        const uint32_t power = half_power_bits(Codes::query_exponent(i));
        numbers[unit][i] = clamp_halves(multiply_halves(both, power << 16 | power));
      }
    }
    for (int h = 0; h < 2; ++h) base[h] = offset[h];
  }
  __device__ float score(float product, int h) const {
    return fmaf(product, __uint_as_float(float_power_bits(Codes::kScoreExponent)), base[h]);
  }
};

/// Products of a stage's keys with the queries: [i]: slots 16 i + row (first two) and 16 i + row + 8, by head.
template <class Shape>
__device__ inline void multiply_keys(const std::byte* keys, const PackedQuery<Shape>& query, int lane,
                                     float (&products)[Shape::kSteps][4]) {
  using Codes = typename Shape::Codes;
  for (auto& of_step : products)
    for (float& x : of_step) x = 0.0f;
#pragma unroll
  for (int i = 0; i < Shape::kUnits * Shape::kSlots; i += kWarp) {
    uint32_t words[4];
    load_matrices(words, reinterpret_cast<const __half*>(keys + 16 * (i + lane)));
    const uint32_t moved[4] = {Codes::moved(words[0]), Codes::moved(words[1]), Codes::moved(words[2]),
                               Codes::moved(words[3])};
#pragma unroll
    for (int j = 0; j < Shape::kPerHalf; j += 2) {
#pragma unroll
      for (int m = 0; m < 4; m += 2) {
        const int unit = (i + 8 * m) / Shape::kSlots, step = (i + 8 * m) % Shape::kSlots / 16;
        const uint32_t a[4] = {Codes::numbers(words[m], moved[m], j), Codes::numbers(words[m + 1], moved[m + 1], j),
                               Codes::numbers(words[m], moved[m], j + 1),
                               Codes::numbers(words[m + 1], moved[m + 1], j + 1)};
        multiply_add(products[step], a, query.numbers[unit][j], query.numbers[unit][j + 1]);
      }
    }
  }
}

/// Conversion of products to scores, as powers of two: of f16 tiles, packed ones, and calibrated ones. weight() is 2 to
/// the score plus `lift`.
struct PlainScores {
  __device__ float score(float product, int) const { return product; }
  __device__ float weight(float product, int, float lift) const { return exp2_of(product + lift); }
};
template <class Shape>
struct PackedScores {
  const PackedQuery<Shape>& query;
  __device__ float score(float product, int h) const { return query.score(product, h); }
  __device__ float weight(float product, int h, float lift) const {
    return exp2_of(
        fmaf(product, __uint_as_float(float_power_bits(Shape::Codes::kScoreExponent)), query.base[h] + lift));
  }
};
/// KvCalibration's g, by head. The minimum score is subtracted before the slope, which may be huge, is applied, so that
/// the result stays within the range of g.
struct StepCalibration {
  float least[2], slope[2], least_after[2];
  __device__ float apply(float score, int h) const { return fmaf(slope[h], score - least[h], least_after[h]); }
};
template <class Shape>
struct CalibratedScores {
  const PackedQuery<Shape>& query;
  const StepCalibration& calibration;
  __device__ float score(float product, int h) const { return calibration.apply(query.score(product, h), h); }
  __device__ float weight(float product, int h, float lift) const {
    // The slope may be zero: test for minus infinity, an absent slot, explicitly.
    return product == -INFINITY ? 0.0f : exp2_of(score(product, h) + lift);
  }
};

}  // namespace ocellus::cuda
