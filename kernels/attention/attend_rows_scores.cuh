// Tiled attention, third part: the state of a warp during its pass over the slots, and the conversion of scores to
// weights. Scores and weights never leave its registers.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/attention/attend_rows_place.cuh"

namespace ocellus::cuda {

/// State of a warp during its pass over the slots. A lane holds, of every 16 query rows, rows l / 4 and l / 4 + 8.
template <class T>
struct TileRows {
  uint32_t queries[T::kRowTiles][T::kKeepsQueries ? T::kDim / kFragment : 1][4];
  float mixed[T::kRowTiles][std::max(T::kValueDim / kMatrix, 1)][4] = {};  // weighted sums of values
  float base[T::kRowTiles][2];      // scaled, at most kMaxAboveBase below the largest score
  float sum[T::kRowTiles][2] = {};  // sum of the weights this lane saw
  int least_limit, largest_limit;   // limits of the warp's rows
  int largest_begin;                // begin of listed own rows
};

template <class T>
using TileScores = float[T::kRowTiles][T::kSlots / kMatrix][4];

template <class T>
__device__ int first_warp_row(const TilePlace& place) {
  return place.tile_row + static_cast<int>(threadIdx.x) / kWarp * T::kWarpRows;
}

template <class T>
__device__ void start_rows(const RowsWork& work, const TilePlace& place, TileRows<T>& rows) {
#pragma unroll
  for (int r = 0; r < T::kRowTiles; ++r) rows.base[r][0] = rows.base[r][1] = -INFINITY;
  rows.least_limit = limit_of(work, place, first_warp_row<T>(place));
  rows.largest_limit = limit_of(work, place, first_warp_row<T>(place) + T::kWarpRows - 1);
  if constexpr (T::kListed) {
    rows.least_limit = min(rows.least_limit, span_of(work, place, first_warp_row<T>(place)).end);
    const RowSpan last = span_of(work, place, first_warp_row<T>(place) + T::kWarpRows - 1);
    rows.largest_limit = last.end;
    rows.largest_begin = last.begin;
  }
}

/// Place of this lane's row of a matrix if four matrices form a left factor, or values as a right factor.
template <class T>
__device__ const __half* fragment_row(const __half* tile) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  return tile + lane % 16 * T::kStride + lane / 16 * 8;
}
template <class T>
__device__ void keep_queries(const __half* warp_queries, TileRows<T>& rows) {
#pragma unroll
  for (int r = 0; r < T::kRowTiles; ++r)
#pragma unroll
    for (int k = 0; k < T::kDim / kFragment; ++k)
      load_matrices(rows.queries[r][k], fragment_row<T>(warp_queries) + r * kFragment * T::kStride + k * kFragment);
}

/// Number of slots of a run that a row sees, whose limit_of() is `limit`.
__device__ inline int visible_slots(const PieceSlots& run, int limit) {
  return run.visible_from < limit ? run.live : 0;
}
__device__ inline int visible_slots(const RingRun& run, int limit) {
  return visible_slots(PieceSlots{run.live, run.run.visible_from}, limit);
}

/// Adds the bias of own rows to a stage's scores.
template <class T>
__device__ void bias_stage(const RowsWork& work, int stage, TileScores<T>& scores) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int n = 0; n < T::kSlots / kMatrix; ++n) {
    const int own = own_row_of<T>(work, stage) + n / 2 * kTileSlots, first = own + n % 2 * kMatrix + lane % 4 * 2;
    if (is_run<T>(own)) continue;
    const float2 bias = *reinterpret_cast<const float2*>(work.row_bias + first);
#pragma unroll
    for (int r = 0; r < T::kRowTiles; ++r)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        scores[r][n][2 * half] = fmaf(bias.x, work.root, scores[r][n][2 * half]);
        scores[r][n][2 * half + 1] = fmaf(bias.y, work.root, scores[r][n][2 * half + 1]);
      }
  }
}

/// Masks slots that are not live or come after a row.
template <class T, class Run>
__device__ void mask_stage(const RowsWork& work, const TilePlace& place, const Run* runs, int stage,
                           TileScores<T>& scores) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int r = 0; r < T::kRowTiles; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int m = first_warp_row<T>(place) + r * kFragment + half * kMatrix + lane / 4;
      const int limit = limit_of(work, place, m);
      RowSpan span = {0, limit};
      if constexpr (T::kListed) span = span_of(work, place, m);
#pragma unroll
      for (int n = 0; n < T::kSlots / kMatrix; ++n) {
        const int own = own_row_of<T>(work, stage) + n / 2 * kTileSlots;
        const int visible = is_run<T>(own) ? visible_slots(runs[n / 2], limit) : span.end - own;
        const int hidden = T::kListed && !is_run<T>(own) ? span.begin - own : 0;
        const int column = n % 2 * kMatrix + lane % 4 * 2;
        if (column >= visible || (T::kListed && column < hidden)) scores[r][n][2 * half] = -INFINITY;
        if (column + 1 >= visible || (T::kListed && column + 1 < hidden)) scores[r][n][2 * half + 1] = -INFINITY;
      }
    }
  }
}

template <class T>
__device__ bool sees_all(const RowsWork& work, const RingRun* runs, int stage, int least_limit) {
  const int own = own_row_of<T>(work, stage);
  bool all = own + T::kSlots <= least_limit;
  if (!is_run<T>(own)) return all;
#pragma unroll
  for (int entry = 0; entry < T::kPieces; ++entry)
    all = all && (own + entry * kTileSlots >= 0 || visible_slots(runs[entry], least_limit) >= kTileSlots);
  return all;
}

/// The same, of a warp's rows.
template <class T>
__device__ bool sees_all(const RowsWork& work, const RingRun* runs, int stage, const TileRows<T>& rows) {
  const bool all = sees_all<T>(work, runs, stage, rows.least_limit);
  if constexpr (!T::kListed) return all;
  const int own = own_row_of<T>(work, stage);
  return all && (own >= rows.largest_begin || own + T::kSlots <= 0);
}

/// Weights are powers of two of the difference to a base. The base follows the row's largest score at this distance:
/// it rarely moves then, which saves rescaling, and weights of up to 2^8 lose nothing in f16, nor their sums in f32.
inline constexpr float kMaxAboveBase = 8.0f;

/// Moves the bases of rows whose scores have grown, and rescales the sums of their weights. Each row separately: which
/// rows share a warp must not affect the results. Returns false if none of this lane moved, and `rescale` is 1.
template <class T>
__device__ bool move_bases(float scale, const TileScores<T>& scores, TileRows<T>& rows,
                           float (&rescale)[T::kRowTiles][2]) {
  bool moved = false;
#pragma unroll
  for (int r = 0; r < T::kRowTiles; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = -INFINITY;
#pragma unroll
      for (int n = 0; n < T::kSlots / kMatrix; ++n)
        largest = fmaxf(largest, fmaxf(scores[r][n][2 * half], scores[r][n][2 * half + 1]));
      largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 2)) * scale;
      const float base = rows.base[r][half];
      const bool moves = largest > base + kMaxAboveBase;  // the first score that is not hidden always does
      moved = moved || moves;
      rows.base[r][half] = moves ? largest : base;
      rescale[r][half] = moves ? exp2_of(base - largest) : 1.0f;
      rows.sum[r][half] *= rescale[r][half];
    }
  }
  return moved;
}

template <class T>
__device__ void rescale_mixed(const float (&rescale)[T::kRowTiles][2], TileRows<T>& rows) {
#pragma unroll
  for (int r = 0; r < T::kRowTiles; ++r)
#pragma unroll
    for (int n = 0; n < T::kValueDim / kMatrix; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) rows.mixed[r][n][i] *= rescale[r][i / 2];
}

/// Value added to scaled scores before they become powers of two.
template <class T>
__device__ float minus_base(const TileRows<T>& rows, int r, int half) {
  return rows.base[r][half] == -INFINITY ? 0.0f : -rows.base[r][half];  // a row that saw nothing yet
}

}  // namespace ocellus::cuda
