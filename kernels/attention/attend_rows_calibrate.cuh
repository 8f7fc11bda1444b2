// Tiled attention, calibration of the scores of packed slots (KvCalibration). Before the attention itself, a kernel
// finds the minimum and the maximum score of each query row and head among the calibrated slots. Its result is a pair
// for each: the slope and the minimum score; the slope is kNotCalibrated if scores stay unchanged.
#pragma once

#include <cmath>

#include "kernels/attention/attend_rows_scores.cuh"
#include "platform/queue.h"

namespace ocellus::cuda {

inline constexpr float kNotCalibrated = -1.0f;

/// Tiles of that kernel: narrow ones, and only the keys of the slots.
template <int kDim>
struct KeysTile : RowsTile<kDim, 1> {
  static constexpr int kValueDim = 0;
};

/// Scores of one query row among calibrated slots, as the kernels compute them: q . k.
struct ScoreRange {
  float low = INFINITY, high = -INFINITY;

  __device__ void add(float score) {
    low = fminf(low, score);
    high = fmaxf(high, score);
  }
  __device__ void add(const ScoreRange& other) {
    low = fminf(low, other.low);
    high = fmaxf(high, other.high);
  }
};

/// Returns the pair of query row m of a head.
__device__ inline float* calibration_of(const RowsWork& work, const TilePlace& place, int m) {
  const int row = m / work.group;
  return work.calibration.rows + row * work.calibration.stride +
         2 * (place.kv_head * work.group + m - row * work.group);
}

__device__ inline void set_calibration(const RowsWork& work, const TilePlace& place, int m, const ScoreRange& range,
                                       int slots) {
  float* const pair = calibration_of(work, place, m);
  pair[0] = slots < 2 ? kNotCalibrated : work.calibration.by.slope((range.high - range.low) / work.root);
  pair[1] = range.low;
}

/// Returns the slots of a stage's entry that calibration applies to.
template <class T>
__device__ int calibrated_slots(const RowsWork& work, const RingRun* runs, int stage, int entry) {
  const bool run = is_run<T>(own_row_of<T>(work, stage) + entry * kTileSlots);
  return run && runs[entry].run.calibrated ? runs[entry].live : 0;
}

/// Adds a stage's scores to the ranges of the lane's two rows, and the number of its calibrated slots that the rows see
/// to `seen`.
template <class T>
__device__ void add_stage(const RowsWork& work, const TilePlace& place, const RingRun* runs, int stage,
                          const TileScores<T>& scores, ScoreRange (&ranges)[2], int (&seen)[2]) {
  static_assert(T::kRowTiles == 1);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int m = min(first_warp_row<T>(place) + half * kMatrix + lane / 4, place.rows - 1);
    const int row = work.first_row + m / work.group;
#pragma unroll
    for (int n = 0; n < T::kSlots / kMatrix; ++n) {
      const int calibrated = calibrated_slots<T>(work, runs, stage, n / 2);
      const int slots = calibrated > 0 && runs[n / 2].run.visible_from <= row ? calibrated : 0;
      if (n % 2 == 0) seen[half] += slots;
      const int column = n % 2 * kMatrix + lane % 4 * 2;
#pragma unroll
      for (int i = 0; i < 2; ++i)
        if (column + i < slots) ranges[half].add(scores[0][n][2 * half + i]);
    }
  }
}

/// Combines the lanes of a row, each of which has seen some of the slots.
__device__ inline void add_lanes(ScoreRange& range) {
  for (int offset = 1; offset < 4; offset *= 2) {
    range.add({__shfl_xor_sync(0xFFFFFFFFu, range.low, offset), __shfl_xor_sync(0xFFFFFFFFu, range.high, offset)});
  }
}

/// Returns g(score) for a row's pair.
__device__ inline float calibrated_score(const RowsWork& work, const float* pair, float score) {
  const float slope = pair[0], low = pair[1];
  if (slope == kNotCalibrated) return score;
  return fmaf(slope, score - low, low - work.calibration.by.tau_low * work.root);
}

/// Changes the scores of calibrated slots, including those after the live ones.
template <class T>
__device__ void calibrate_stage(const RowsWork& work, const TilePlace& place, const RingRun* runs, int stage,
                                TileScores<T>& scores) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int r = 0; r < T::kRowTiles; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int m = first_warp_row<T>(place) + r * kFragment + half * kMatrix + lane / 4;
      if (m >= place.rows) continue;
      const float* pair = calibration_of(work, place, m);
#pragma unroll
      for (int n = 0; n < T::kSlots / kMatrix; ++n) {
        if (calibrated_slots<T>(work, runs, stage, n / 2) == 0) continue;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& score = scores[r][n][2 * half + i];
          score = calibrated_score(work, pair, score);
        }
      }
    }
  }
}

/// Fills work.calibration.rows. `partials`: the scratch of attend_rows.
void find_calibration(RowsWork work, float* partials, Queue& queue);

}  // namespace ocellus::cuda
