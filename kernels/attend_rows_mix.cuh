// Tiled attention, second part: what a warp does with a stage that lies in shared memory. Scores and weights never
// leave its registers.
#pragma once

#include <cmath>

#include "kernels/attend_rows_fetch.cuh"

namespace ocellus::cuda {

/// What a warp keeps while it walks over the slots. A lane holds, of every 16 query rows, rows l / 4 and l / 4 + 8.
template <class T>
struct TileRows {
  uint32_t queries[T::kRowTiles][T::kKeepsQueries ? T::kDim / kFragment : 1][4];
  float mixed[T::kRowTiles][T::kDim / kMatrix][4] = {};  // weighted sums of values
  float maximum[T::kRowTiles][2];                        // scaled
  float sum[T::kRowTiles][2] = {};                       // of the weights this lane saw
  int least_limit, largest_limit;                        // of the warp's rows
};

template <class T>
using TileScores = float[T::kRowTiles][T::kSlots / kMatrix][4];

/// Query row m of a head sees own rows [0, limit). Rows behind the last one are worked on like it and not written.
__device__ inline int limit_of(const RowsWork& work, const TilePlace& place, int m) {
  return work.causal ? work.first_row + min(m, place.rows - 1) / work.group + 1 : work.row_count;
}

template <class T>
__device__ int first_warp_row(const TilePlace& place) {
  return place.tile_row + static_cast<int>(threadIdx.x) / kWarp * T::kWarpRows;
}

template <class T>
__device__ void start_rows(const RowsWork& work, const TilePlace& place, TileRows<T>& rows) {
#pragma unroll
  for (int r = 0; r < T::kRowTiles; ++r) rows.maximum[r][0] = rows.maximum[r][1] = -INFINITY;
  rows.least_limit = limit_of(work, place, first_warp_row<T>(place));
  rows.largest_limit = limit_of(work, place, first_warp_row<T>(place) + T::kWarpRows - 1);
}

/// Where this lane's row of a matrix lies when four matrices make a left factor, or values as a right factor.
template <class T>
__device__ const __half* fragment_row(const __half* tile) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  return tile + lane % 16 * T::kStride + lane / 16 * 8;
}
/// The same for keys, which stand turned over in memory: two matrices along the head dimension, then the next slots.
template <class T>
__device__ const __half* key_fragment_row(const __half* tile) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  return tile + (lane / 16 * 8 + lane % 8) * T::kStride + lane / 8 % 2 * 8;
}

template <class T>
__device__ void keep_queries(const __half* warp_queries, TileRows<T>& rows) {
#pragma unroll
  for (int r = 0; r < T::kRowTiles; ++r)
#pragma unroll
    for (int k = 0; k < T::kDim / kFragment; ++k)
      load_matrices(rows.queries[r][k], fragment_row<T>(warp_queries) + r * kFragment * T::kStride + k * kFragment);
}

template <class T>
__device__ const uint32_t (&query_factor(const TileRows<T>& rows, const uint32_t (&loaded)[T::kRowTiles][4], int r,
                                         int k))[4] {
  if constexpr (T::kKeepsQueries) return rows.queries[r][k];
  return loaded[r];
}

template <class T>
__device__ void score_stage(const TileRows<T>& rows, const __half* warp_queries, const __half* keys,
                            TileScores<T>& scores) {
#pragma unroll
  for (int k = 0; k < T::kDim / kFragment; ++k) {
    uint32_t loaded[T::kRowTiles][4];
    if constexpr (!T::kKeepsQueries) {
#pragma unroll
      for (int r = 0; r < T::kRowTiles; ++r)
        load_matrices(loaded[r], fragment_row<T>(warp_queries) + r * kFragment * T::kStride + k * kFragment);
    }
#pragma unroll
    for (int n = 0; n < T::kPieces; ++n) {
      uint32_t factor[4];
      load_matrices(factor, key_fragment_row<T>(keys) + n * kFragment * T::kStride + k * kFragment);
#pragma unroll
      for (int r = 0; r < T::kRowTiles; ++r) {
        const auto& query = query_factor<T>(rows, loaded, r, k);
        multiply_add(scores[r][2 * n], query, factor[0], factor[1]);
        multiply_add(scores[r][2 * n + 1], query, factor[2], factor[3]);
      }
    }
  }
}

/// Hides what is not live or lies behind a row.
template <class T>
__device__ void mask_stage(const RowsWork& work, const TilePlace& place, const KvRun* runs, int stage,
                           TileScores<T>& scores) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int r = 0; r < T::kRowTiles; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int limit = limit_of(work, place, first_warp_row<T>(place) + r * kFragment + half * kMatrix + lane / 4);
#pragma unroll
      for (int n = 0; n < T::kSlots / kMatrix; ++n) {
        const int own = (stage * T::kPieces + n / 2 - work.run_count) * kTileSlots;
        const int visible = own < 0 ? runs[n / 2].slots : limit - own;
        const int column = n % 2 * kMatrix + lane % 4 * 2;
        if (column >= visible) scores[r][n][2 * half] = -INFINITY;
        if (column + 1 >= visible) scores[r][n][2 * half + 1] = -INFINITY;
      }
    }
  }
}

template <class T>
__device__ bool sees_all(const RowsWork& work, const KvRun* runs, int stage, int least_limit) {
  const int own = (stage * T::kPieces - work.run_count) * kTileSlots;
  bool all = own + T::kSlots <= least_limit;
  if (own >= 0) return all;
#pragma unroll
  for (int entry = 0; entry < T::kPieces; ++entry)
    all = all && (own + entry * kTileSlots >= 0 || runs[entry].slots >= kTileSlots);
  return all;
}

/// Turns scores into weights relative to the new maximum of their row, and earlier sums to the same measure.
template <class T>
__device__ void weigh(float scale, TileRows<T>& rows, TileScores<T>& scores) {
  float rescale[T::kRowTiles][2];
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
      largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 2));
      const float maximum = fmaxf(rows.maximum[r][half], largest * scale);
      const float base = maximum == -INFINITY ? 0.0f : maximum;  // a row may have seen nothing yet
      rescale[r][half] = exp2_of(rows.maximum[r][half] - base);
      moved = moved || rows.maximum[r][half] != maximum;
      rows.maximum[r][half] = maximum;
      float sum = 0;
#pragma unroll
      for (int n = 0; n < T::kSlots / kMatrix; ++n) {
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          scores[r][n][i] = exp2_of(fmaf(scores[r][n][i], scale, -base));
          sum += scores[r][n][i];
        }
      }
      rows.sum[r][half] = rows.sum[r][half] * rescale[r][half] + sum;
    }
  }
  // After the first stages maxima rarely move.
  if (!__any_sync(0xFFFFFFFFu, moved)) return;
#pragma unroll
  for (int r = 0; r < T::kRowTiles; ++r)
#pragma unroll
    for (int n = 0; n < T::kDim / kMatrix; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) rows.mixed[r][n][i] *= rescale[r][i / 2];
}

template <class T>
__device__ void mix_stage(const TileScores<T>& weights, const __half* values, TileRows<T>& rows) {
#pragma unroll
  for (int k = 0; k < T::kPieces; ++k) {
    // Two neighbouring matrices of sums are laid out like one left factor.
    uint32_t factor[T::kRowTiles][4];
#pragma unroll
    for (int r = 0; r < T::kRowTiles; ++r)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float(&pair)[4] = weights[r][2 * k + i / 2];
        factor[r][i] = pack_halves(pair[i % 2 * 2], pair[i % 2 * 2 + 1]);
      }
#pragma unroll
    for (int n = 0; n < T::kDim / kFragment; ++n) {
      uint32_t value[4];
      load_matrices_transposed(value, fragment_row<T>(values) + k * kFragment * T::kStride + n * kFragment);
#pragma unroll
      for (int r = 0; r < T::kRowTiles; ++r) {
        multiply_add(rows.mixed[r][2 * n], factor[r], value[0], value[1]);
        multiply_add(rows.mixed[r][2 * n + 1], factor[r], value[2], value[3]);
      }
    }
  }
}

}  // namespace ocellus::cuda
