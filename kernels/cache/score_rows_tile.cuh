// Blocks of score_rows: 64 rows are kept in the registers of four warps, 16 each, as the left factor of every product;
// rows of the other kind come through shared memory, a stage at a time, while the previous stage is processed. The
// first pass keeps lines and iterates over slots, the second keeps slots and iterates over lines.
#pragma once

#include "kernels/attention/attend_tile.cuh"
#include "kernels/base/device_limits.cuh"
#include "kernels/base/device_math.cuh"
#include "kernels/cache/score_rows_plan.h"

namespace ocellus::cuda {

inline constexpr int kScoreThreads = 128;
inline constexpr int kScoreFragment = 16;  // rows and depth of one product
static_assert(kTileSlots == kScoreFragment && kScoreTile == kScoreThreads / kWarp * kScoreFragment);

/// One call, as passed to the kernels.
struct ScoreWork {
  const __half* query;
  int64_t query_stride;
  const __half* keys;
  int64_t head_stride, row_stride;
  const KvRun* runs;
  int run_count;
  int layer;
  int head_dim;
  int group;
  int kv_heads;
  int lines;      // per key/value head
  int first_row;  // chunk row of the first query
  int row_count;
  float scale;  // scale of the scores, which are powers of two
  KvCalibration calibration;
  ScoreLine* measured;  // [kv_heads, lines]; also the next one
  ScoreSlope* slopes;   // null: no calibration
  ScorePart* parts;     // [splits, kv_heads, lines]
  float* scores;
  int64_t scores_stride;
  ObservingRows observers;
  bool adds;
  bool adds_one;
  AttentionFact fact;
  float* facts;
  int64_t facts_stride;

  /// The last of the chunk's rows that a line sees.
  __device__ int last_seen(int line) const { return observers.see_all ? row_count - 1 : first_row + line / group; }
};

template <int kDim_>
struct ScoreTile {
  static constexpr int kDim = kDim_;
  static constexpr int kStage = score_stage_rows(kDim);
  static constexpr int kPieces = kStage / kTileSlots;
  static constexpr int kPieceThreads = kScoreThreads / kPieces;
  // Rows are an odd number of 16-byte units apart: eight rows of a matrix then lie in different banks.
  static constexpr int kStride = kDim + 8;
  static constexpr int kRowUnits = kDim / 8;  // units of 16 bytes
  static constexpr int kKept = kScoreTile * kStride;
  static constexpr int kSharedBytes = (kKept + 2 * kStage * kStride) * 2;
  static constexpr int kBlocks = kDim <= 128 ? 4 : kDim <= 256 ? 2 : 1;  // blocks per multiprocessor
  static_assert(kSharedBytes <= kLeastSharedBytes);
};

template <class T>
using ScoreKept = uint32_t[T::kDim / kScoreFragment][4];
/// Lane l has rows l / 4 and l / 4 + 8 of its warp's kept rows, and of every 8 rows of the stage 2 (l % 4) and the
/// next.
template <class T>
using StageScores = float[T::kStage / 8][4];

/// Begins to copy `count` lines from line `first` on. Those after the last become zero.
template <class T>
__device__ void fetch_lines(const ScoreWork& work, int kv_head, int first, int count, __half* to) {
  for (int i = static_cast<int>(threadIdx.x); i < count * T::kRowUnits; i += kScoreThreads) {
    const int row = i / T::kRowUnits, unit = i % T::kRowUnits;
    const bool exists = first + row < work.lines && unit * 8 < work.head_dim;
    const int m = first + row;
    const __half* from = work.query;
    if (exists)
      from += m / work.group * work.query_stride +
              static_cast<int64_t>(kv_head * work.group + m % work.group) * work.head_dim + unit * 8;
    copy_16_async(to + row * T::kStride + unit * 8, from, exists ? 16 : 0);
  }
}

/// Begins to copy `count` keys that are `stride` values apart, with threads thread, thread + threads, ... The first
/// `live` exist; the others become zero.
template <class T>
__device__ void fetch_keys(const __half* keys, int64_t stride, int live, int count, int head_dim, int thread,
                           int threads, __half* to) {
  for (int i = thread; i < count * T::kRowUnits; i += threads) {
    const int row = i / T::kRowUnits, unit = i % T::kRowUnits;
    const bool exists = row < live && unit * 8 < head_dim;
    copy_16_async(to + row * T::kStride + unit * 8, exists ? keys + row * stride + unit * 8 : keys, exists ? 16 : 0);
  }
}

/// Facts of a stage's pieces besides their keys.
template <class T>
struct StageNotes {
  int live[T::kPieces];  // existing slots
  int calibrated[T::kPieces];
};

/// Returns the chunk's row where piece `entry` of a stage begins; negative if it is a run.
template <class T>
__device__ int own_row_of_piece(const ScoreWork& work, int stage, int entry) {
  return (stage * T::kPieces + entry - work.run_count) * kTileSlots;
}

/// Begins to copy a stage of slots: pieces of the runs, then of the chunk's first `own_rows` rows. Each piece is
/// handled by some of the threads, so that the runs' descriptors are loaded at the same time.
template <class T>
__device__ void fetch_slots(const ScoreWork& work, int kv_head, int own_rows, int stage, __half* to,
                            StageNotes<T>& notes) {
  const int entry = static_cast<int>(threadIdx.x) / T::kPieceThreads;
  const int thread = static_cast<int>(threadIdx.x) % T::kPieceThreads;
  const int own = own_row_of_piece<T>(work, stage, entry);
  const __half* keys = work.keys + kv_head * work.head_stride;
  int64_t stride = work.row_stride;
  int live = own_rows - own, calibrated = 0;
  if (own < 0) {
    const KvRun& run = work.runs[stage * T::kPieces + entry];
    keys = reinterpret_cast<const __half*>(run.data + work.layer * run.layer_stride + kv_head * run.head_stride);
    stride = work.head_dim;
    live = live_slots(run, 0, 0, work.layer * work.kv_heads + kv_head);
    calibrated = run.calibrated ? 1 : 0;
  } else if (live > 0) {
    keys += own * work.row_stride;
  }
  live = max(0, min(live, kTileSlots));
  if (thread == 0) {
    notes.live[entry] = live;
    notes.calibrated[entry] = calibrated;
  }
  fetch_keys<T>(keys, stride, live, kTileSlots, work.head_dim, thread, T::kPieceThreads,
                to + entry * kTileSlots * T::kStride);
}

/// Loads a warp's rows of the kept tile into registers.
template <class T>
__device__ void keep_rows(const __half* tile, ScoreKept<T>& kept) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const __half* row = tile + (warp * kScoreFragment + lane % 16) * T::kStride + lane / 16 * 8;
#pragma unroll
  for (int k = 0; k < T::kDim / kScoreFragment; ++k) load_matrices(kept[k], row + k * kScoreFragment);
}

/// scores = kept rows times the stage's rows.
template <class T>
__device__ void score_rows_of_stage(const ScoreKept<T>& kept, const __half* stage, StageScores<T>& scores) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  // Two matrices along the head dimension, then the next eight rows.
  const __half* row = stage + (lane / 16 * 8 + lane % 8) * T::kStride + lane / 8 % 2 * 8;
#pragma unroll
  for (int n = 0; n < T::kStage / 8; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) scores[n][i] = 0;
#pragma unroll
  for (int k = 0; k < T::kDim / kScoreFragment; ++k) {
#pragma unroll
    for (int n = 0; n < T::kStage / kScoreFragment; ++n) {
      uint32_t factor[4];
      load_matrices(factor, row + n * kScoreFragment * T::kStride + k * kScoreFragment);
      multiply_add(scores[2 * n], kept[k], factor[0], factor[1]);
      multiply_add(scores[2 * n + 1], kept[k], factor[2], factor[3]);
    }
  }
}

/// Sums over the four lanes that share a row.
__device__ inline float row_sum(float x) {
  x += __shfl_xor_sync(0xFFFFFFFFu, x, 1);
  return x + __shfl_xor_sync(0xFFFFFFFFu, x, 2);
}
__device__ inline float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, 2));
}
__device__ inline float row_min(float x) { return -row_max(-x); }

}  // namespace ocellus::cuda
