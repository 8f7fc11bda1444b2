// Tiled attention, last part: writing sums as rows of the output.
#pragma once

#include "kernels/attention/attend_rows_scores.cuh"

namespace ocellus::cuda {

/// Combines the lanes of a row, each of which has summed its weights.
template <class T>
__device__ void add_lane_sums(TileRows<T>& rows) {
#pragma unroll
  for (int r = 0; r < T::kRowTiles; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      rows.sum[r][half] += __shfl_xor_sync(0xFFFFFFFFu, rows.sum[r][half], 1);
      rows.sum[r][half] += __shfl_xor_sync(0xFFFFFFFFu, rows.sum[r][half], 2);
    }
  }
}

/// Divides by the sums and writes f16 rows, through the memory of the queries so that rows leave in 16-byte pieces.
template <class T>
__device__ void write_rows(const RowsWork& work, const TilePlace& place, const TileRows<T>& rows, __half* warp_tile) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int r = 0; r < T::kRowTiles; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float factor = 1.0f / rows.sum[r][half];
      __half* to = warp_tile + (r * kFragment + half * kMatrix + lane / 4) * T::kStride + lane % 4 * 2;
#pragma unroll
      for (int n = 0; n < T::kValueDim / kMatrix; ++n)
        *reinterpret_cast<__half2*>(to + n * kMatrix) =
            round_half2(rows.mixed[r][n][2 * half] * factor, rows.mixed[r][n][2 * half + 1] * factor);
    }
  }
  __syncwarp();
  const int first = first_warp_row<T>(place);
  for (int i = lane; i < T::kWarpRows * T::kRowUnits; i += kWarp) {
    const int row = i / T::kRowUnits, unit = i % T::kRowUnits;
    if (first + row >= place.rows || unit * 8 >= work.head_dim) continue;
    *reinterpret_cast<uint4*>(work.output + row_offset(work, place, first + row, work.output_stride) + unit * 8) =
        *reinterpret_cast<const uint4*>(warp_tile + row * T::kStride + unit * 8);
  }
}

}  // namespace ocellus::cuda
