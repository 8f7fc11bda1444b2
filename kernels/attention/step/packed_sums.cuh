// The sums of one warp's decode attention over tiles that may be packed (packed_scores.cuh).
#pragma once

#include "kernels/attention/step/packed_scores.cuh"

namespace ocellus::cuda {

/// 1 / x within a unit of the last place.
__device__ inline float inverse_of(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}

/// Attention of one warp's tiles so far, for heads 2 column and 2 column + 1. A lane has the channels of half `row` of
/// every unit.
template <class Shape>
struct PackedAttended {
  using Codes = typename Shape::Codes;
  static constexpr int kUnits = Shape::kUnits, kPerHalf = Shape::kPerHalf;

  float mixed[kUnits][kPerHalf / 2][4];  // [unit][i]: codes 2 i (first two) and 2 i + 1, by head
  float maximum[2];
  float sum[4];      // sum of the weights since the current block began, by head, twice
  float earlier[2];  // sum of the weights before

  __device__ PackedAttended() {
    for (auto& unit : mixed)
      for (auto& pair : unit)
        for (float& x : pair) x = 0.0f;
    for (float& x : sum) x = 0.0f;
    for (int h = 0; h < 2; ++h) {
      maximum[h] = kNoScore;
      earlier[h] = 0.0f;
    }
  }
  /// products: see multiply_keys; those of slots from `live` on are replaced by minus infinity. Returns the weights,
  /// transposed from slots by heads to heads by slots. At least one slot is live, or none of an f16 tile.
  template <int kSteps, class Scores>
  __device__ void weigh(float (&products)[kSteps][4], const Scores& scores, uint32_t (&weights)[kSteps][2]) {
    float factor[2], lift[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float largest = fmaxf(products[0][h], products[0][2 + h]);
#pragma unroll
      for (int i = 1; i < kSteps; ++i) largest = fmaxf(largest, fmaxf(products[i][h], products[i][2 + h]));
      const float larger = fmaxf(maximum[h], scores.score(largest_of_rows(largest), h));
      factor[h] = exp2_of(maximum[h] - larger);
      maximum[h] = larger;
      lift[h] = kLargestWeight - larger;
    }
    if (__any_sync(0xFFFFFFFFu, factor[0] != 1.0f || factor[1] != 1.0f)) rescale(factor);
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      float weight[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) weight[k] = scores.weight(products[i][k], k % 2, lift[k % 2]);
      weights[i][0] = transposed(pack_halves(weight[0], weight[1]));
      weights[i][1] = transposed(pack_halves(weight[2], weight[3]));
      // The sum of the rounded weights: rows of ones times the weights.
      constexpr uint32_t kOnes[4] = {Codes::kOnes, Codes::kOnes, Codes::kOnes, Codes::kOnes};
      multiply_add(sum, kOnes, weights[i][0], weights[i][1]);
    }
  }
  /// values: those of a stage.
  __device__ void mix(const std::byte* values, const uint32_t (&weights)[Shape::kSteps][2], int lane) {
#pragma unroll
    for (int i = 0; i < kUnits * Shape::kSlots; i += kWarp) {
      uint32_t words[4];
      load_matrices_transposed(words, reinterpret_cast<const __half*>(values + 16 * (i + lane)));
      const uint32_t moved[4] = {Codes::moved(words[0]), Codes::moved(words[1]), Codes::moved(words[2]),
                                 Codes::moved(words[3])};
#pragma unroll
      for (int m = 0; m < 4; m += 2) {
        const int unit = (i + 8 * m) / Shape::kSlots, step = (i + 8 * m) % Shape::kSlots / 16;
#pragma unroll
        for (int j = 0; j < kPerHalf; j += 2) {
          const uint32_t a[4] = {Codes::numbers(words[m], moved[m], j), Codes::numbers(words[m], moved[m], j + 1),
                                 Codes::numbers(words[m + 1], moved[m + 1], j),
                                 Codes::numbers(words[m + 1], moved[m + 1], j + 1)};
          multiply_add(mixed[unit][j / 2], a, weights[step][0], weights[step][1]);
        }
      }
    }
  }
  /// Converts sums of plain values to sums of numbers, in units of the block's steps.
  __device__ void take_up(const BlockScales& scales, int row) {
#pragma unroll
    for (int unit = 0; unit < kUnits; ++unit) {
      float steps[kPerHalf], offsets[kPerHalf];
      read_scales(scales, Shape::first_channel(unit, row), steps, offsets);
#pragma unroll
      for (int i = 0; i < kPerHalf; ++i) {
        const float by = inverse_of(steps[i]);
        for (int h = 0; h < 2; ++h) mixed[unit][i / 2][i % 2 * 2 + h] *= by;
      }
    }
  }
  /// Converts back, with the offsets added for what was summed since.
  __device__ void settle(const BlockScales& scales, int row) {
#pragma unroll
    for (int unit = 0; unit < kUnits; ++unit) {
      float steps[kPerHalf], offsets[kPerHalf];
      read_scales(scales, Shape::first_channel(unit, row), steps, offsets);
#pragma unroll
      for (int i = 0; i < kPerHalf; ++i) {
        for (int h = 0; h < 2; ++h) {
          float& x = mixed[unit][i / 2][i % 2 * 2 + h];
          x = fmaf(x, steps[i], offsets[i] * sum[h]);
        }
      }
    }
    for (int h = 0; h < 2; ++h) earlier[h] += sum[h];
    for (float& x : sum) x = 0.0f;
  }

 private:
  __device__ void rescale(const float (&factor)[2]) {
#pragma unroll
    for (auto& unit : mixed)
      for (auto& pair : unit)
        for (int k = 0; k < 4; ++k) pair[k] *= factor[k % 2];
    for (int k = 0; k < 4; ++k) sum[k] *= factor[k % 2];
    for (int h = 0; h < 2; ++h) earlier[h] *= factor[h];
  }
  /// A value is number * steps[i] + offsets[i] for the number of code i. Ones and zeros after the last channel.
  static __device__ void read_scales(const BlockScales& scales, int channel, float (&steps)[kPerHalf],
                                     float (&offsets)[kPerHalf]) {
    const bool inside = channel < scales.dim;
    uint32_t step_words[kPerHalf / 2], offset_words[kPerHalf / 2];
    scales.load_if(inside, kValueSteps, channel, step_words);
    scales.load_if(inside, kValueOffsets, channel, offset_words);
#pragma unroll
    for (int i = 0; i < kPerHalf; ++i) {
      const int at = Codes::channel(i);
      const float step = at % 2 == 0 ? low_of(step_words[at / 2]) : high_of(step_words[at / 2]);
      steps[i] = inside ? step * __uint_as_float(float_power_bits(-Codes::number_exponent(i))) : 1.0f;
      offsets[i] = at % 2 == 0 ? low_of(offset_words[at / 2]) : high_of(offset_words[at / 2]);
    }
  }
};

/// An f16 tile's values in the layout of PackedAttended: slots 2 column, 2 column + 1, and 8 after them; the channels
/// of half `row` of every unit.
template <class Shape>
struct PlainValues {
  using Codes = typename Shape::Codes;
  static constexpr int kWords = Shape::kPerHalf / 2;
  uint32_t words[Shape::kUnits][4][kWords];

  __device__ void load(const std::byte* values, int count, int dim, int row, int column) {
    const __half* from = reinterpret_cast<const __half*>(values);
#pragma unroll
    for (int unit = 0; unit < Shape::kUnits; ++unit) {
      const int channel = Shape::first_channel(unit, row);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int slot = 2 * column + j % 2 + j / 2 * 8;
        load_words_if(channel < dim && slot < count, from + slot * dim + channel, words[unit][j]);
      }
    }
  }
  /// The new slot, which is not in the cache yet.
  __device__ void fill_in(const __half* value, int new_slot, int row, int column) {
#pragma unroll
    for (int unit = 0; unit < Shape::kUnits; ++unit) {
      uint32_t channels[kWords];
      copy_words(value + Shape::first_channel(unit, row), channels);
#pragma unroll
      for (int j = 0; j < 4; ++j)
        for (int i = 0; i < kWords; ++i)
          if (2 * column + j % 2 + j / 2 * 8 == new_slot) words[unit][j][i] = channels[i];
    }
  }
  __device__ void mix(PackedAttended<Shape>& attended, const uint32_t (&weights)[2]) const {
#pragma unroll
    for (int unit = 0; unit < Shape::kUnits; ++unit) {
#pragma unroll
      for (int i = 0; i < Shape::kPerHalf; i += 2) {
        const int at = Codes::channel(i), next = Codes::channel(i + 1);
        const uint32_t a[4] = {pair_of(unit, 0, at), pair_of(unit, 0, next), pair_of(unit, 2, at),
                               pair_of(unit, 2, next)};
        multiply_add(attended.mixed[unit][i / 2], a, weights[0], weights[1]);
      }
    }
  }

 private:
  /// One channel of slots j and j + 1 of the four.
  __device__ uint32_t pair_of(int unit, int j, int channel) const {
    return __byte_perm(words[unit][j][channel / 2], words[unit][j + 1][channel / 2],
                       channel % 2 == 0 ? 0x5410 : 0x7632);
  }
};

}  // namespace ocellus::cuda
