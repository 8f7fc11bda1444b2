// Calibration data needed before the first weight: the minimum and the maximum score of a row's packed slots, by query
// head, and the number of slots. They do not depend on the order of the scores, so blocks combine them by atomic
// operations. A group's words (kAttendStepRangeWords) are zero between calls.
#pragma once

#include "kernels/attention/step/block.cuh"
#include "kernels/attention/step/packed_scores.cuh"

namespace ocellus::cuda {

/// Integers in the order of the floats; zero is below them all.
__device__ inline uint32_t ordered_bits(float x) {
  const uint32_t bits = __float_as_uint(x);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ inline float from_ordered_bits(uint32_t bits) {
  return __uint_as_float((bits & 0x80000000u) != 0 ? bits & 0x7FFFFFFFu : ~bits);
}

/// One warp's scores so far, of heads 2 column and 2 column + 1, of this row's slots.
struct StepScoreRange {
  float least[2] = {INFINITY, INFINITY};
  float greatest[2] = {-INFINITY, -INFINITY};
  int slots = 0;

  /// Scores rise with products, so the score of the minimum product is the minimum.
  template <class Shape, int kSteps>
  __device__ void lower(const PackedQuery<Shape>& query, const float (&products)[kSteps][4]) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float product = INFINITY;
      for (const auto& of_step : products) product = fminf(product, fminf(of_step[h], of_step[2 + h]));
      least[h] = fminf(least[h], query.score(product, h));
    }
  }
  template <class Shape, int kSteps>
  __device__ void raise(const PackedQuery<Shape>& query, const float (&products)[kSteps][4]) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float product = -INFINITY;
      for (const auto& of_step : products) product = fmaxf(product, fmaxf(of_step[h], of_step[2 + h]));
      greatest[h] = fmaxf(greatest[h], query.score(product, h));
    }
  }
  /// Writes the warp's range to the room: the maximum among the maxima, the minimum among the sums.
  template <class Room>
  __device__ void gather(int warp, int lane, Room& room, int* slots_of_warps) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float low = -largest_of_rows(-least[h]), high = largest_of_rows(greatest[h]);
      if (lane >= 4) continue;
      room.sums[warp][2 * lane + h] = low;
      room.maxima[warp][2 * lane + h] = high;
    }
    if (lane == 0) slots_of_warps[warp] = slots;
  }
};

/// Adds a block's ranges to those of its group.
template <class Room>
__device__ inline void add_ranges(const StepParams& p, const StepPiece& piece, const Room& room,
                                  const int* slots_of_warps) {
  const int head = static_cast<int>(threadIdx.x);
  if (head >= piece.heads) return;
  uint32_t* words = p.calibration.ranges + piece.group * kAttendStepRangeWords;
  float least = INFINITY, greatest = -INFINITY;
  int slots = 0;
  for (int w = 0; w < kStepWarps; ++w) {
    least = fminf(least, room.sums[w][head]);
    greatest = fmaxf(greatest, room.maxima[w][head]);
    slots += slots_of_warps[w];
  }
  if (slots == 0) return;
  atomicMax(words + head, ordered_bits(greatest));
  atomicMax(words + kStepHeads + head, ~ordered_bits(least));
  if (head == 0) atomicAdd(words + 2 * kStepHeads, static_cast<uint32_t>(slots));
}

/// Returns false if scores stay unchanged: no calibration, or fewer than two packed slots.
__device__ inline bool read_calibration(const StepParams& p, const StepPiece& piece, int column,
                                        StepCalibration& calibration) {
  if (p.calibration.ranges == nullptr) return false;
  constexpr float kPerOctave = 0.69314718f;  // scores are powers of two, calibration uses natural ones
  const uint32_t* words = p.calibration.ranges + piece.group * kAttendStepRangeWords;
  if (__ldcg(words + 2 * kStepHeads) < 2) return false;
  for (int h = 0; h < 2; ++h) {
    const int head = 2 * column + h;
    calibration.least[h] = calibration.least_after[h] = 0.0f;
    calibration.slope[h] = 1.0f;
    if (head >= piece.heads) continue;
    const float least = from_ordered_bits(~__ldcg(words + kStepHeads + head));
    const float width = (from_ordered_bits(__ldcg(words + head)) - least) * kPerOctave;
    calibration.least[h] = least;
    calibration.slope[h] = fmaxf(0.0f, (width + p.calibration.tau_low - p.calibration.tau_high) / (width + 1e-8f));
    calibration.least_after[h] = least - p.calibration.tau_low / kPerOctave;
  }
  return true;
}

/// Resets the ranges; called by a block after which none of the group reads them.
__device__ inline void clear_ranges(const StepParams& p, const StepPiece& piece) {
  if (p.calibration.ranges != nullptr && threadIdx.x < kAttendStepRangeWords)
    p.calibration.ranges[piece.group * kAttendStepRangeWords + threadIdx.x] = 0;
}

}  // namespace ocellus::cuda
