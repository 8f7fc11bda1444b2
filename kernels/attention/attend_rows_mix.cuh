// Tiled attention, fourth part: the products of a warp with a stage in shared memory.
#pragma once

#include "kernels/attention/attend_rows_scores.cuh"

namespace ocellus::cuda {

/// Like fragment_row for keys, which are transposed in memory: two matrices along the head dimension, then the next
/// slots.
template <class T>
__device__ const __half* key_fragment_row(const __half* tile) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  return tile + (lane / 16 * 8 + lane % 8) * T::kStride + lane / 8 % 2 * 8;
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

/// Turns the scores of a stage into weights and adds the weighted values, a piece at a time: powers of two of one piece
/// are computed while the tensor cores process the piece before.
template <class T>
__device__ void mix_stage(float scale, const TileScores<T>& scores, const __half* values, TileRows<T>& rows) {
  float offset[T::kRowTiles][2];
#pragma unroll
  for (int r = 0; r < T::kRowTiles; ++r)
#pragma unroll
    for (int half = 0; half < 2; ++half) offset[r][half] = minus_base(rows, r, half);
#pragma unroll
  for (int k = 0; k < T::kPieces; ++k) {
    // Two neighbouring matrices of scores have the layout of one left factor.
    uint32_t factor[T::kRowTiles][4];
#pragma unroll
    for (int r = 0; r < T::kRowTiles; ++r)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float(&pair)[4] = scores[r][2 * k + i / 2];
        const int half = i % 2;
        const float low = exp2_of(fmaf(pair[2 * half], scale, offset[r][half]));
        const float high = exp2_of(fmaf(pair[2 * half + 1], scale, offset[r][half]));
        rows.sum[r][half] += low + high;
        factor[r][i] = pack_halves(low, high);
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
