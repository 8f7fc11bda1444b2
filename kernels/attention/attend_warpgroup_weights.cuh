// Weights of a warpgroup's rows, computed while the product with the values of the stage before runs.
#pragma once

#include "kernels/attention/attend_barriers.cuh"
#include "kernels/attention/attend_rows_scores.cuh"
#include "kernels/attention/attend_warpgroup.cuh"

namespace ocellus::cuda {

template <class T>
using TileWeights = uint32_t[T::kPieces][4];

/// Scores become weights, relative to the row's base.
template <class T>
__device__ void weigh(float scale, TileRows<T>& rows, TileScores<T>& scores) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float offset = minus_base(rows, 0, half);
    float sum[2] = {};
#pragma unroll
    for (int n = 0; n < T::kSlots / kMatrix; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float& score = scores[0][n][2 * half + i];
        score = exp2_of(fmaf(score, scale, offset));
        sum[i] += score;
      }
    }
    rows.sum[0][half] += sum[0] + sum[1];
  }
}

/// Waits for the product with the values before, and rescales its sums where bases have moved.
template <class T>
__device__ void await_values(bool moved, const float (&rescale)[1][2], TileRows<T>& rows, TileScores<T>& scores) {
  // All warps of a group wait at the same instruction. Sums are never negative: the test keeps the compiler from
  // waiting for the products before the weights are computed.
  const int group = static_cast<int>(threadIdx.x) / kGroupThreads;
  if (any_at(1 + T::kGroups + group, kGroupThreads, moved || fminf(rows.sum[0][0], rows.sum[0][1]) < 0)) {
    wait_for_products<0>();
    settle(rows.mixed[0]);
    rescale_mixed<T>(rescale, rows);
  }
  wait_for_products<0>();
  settle(rows.mixed[0]);
  settle(scores[0]);
}

template <class T>
__device__ void pack_weights(const TileScores<T>& scores, TileWeights<T>& weights) {
#pragma unroll
  for (int k = 0; k < T::kPieces; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float(&pair)[4] = scores[0][2 * k + i / 2];
      weights[k][i] = pack_halves(pair[i % 2 * 2], pair[i % 2 * 2 + 1]);
    }
}

/// Scores of a stage become weights; the product with the values before has ended then.
template <class T, bool kFirst>
__device__ void take_weights(float scale, TileRows<T>& rows, TileScores<T>& scores, TileWeights<T>& weights) {
  float rescale[1][2];
  const bool moved = move_bases<T>(scale, scores, rows, rescale);
  weigh<T>(scale, rows, scores);
  settle(scores[0]);
  if constexpr (!kFirst) await_values<T>(moved, rescale, rows, scores);
  pack_weights<T>(scores, weights);
}

}  // namespace ocellus::cuda
