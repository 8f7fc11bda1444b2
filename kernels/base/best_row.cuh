// The best row of a block: the one with the highest score, and of equal ones the lowest.
#pragma once

#include "kernels/base/device_math.cuh"

namespace ocellus::cuda {

/// Threads of a block that compares rows: one warp compares what all have found.
inline constexpr int kBestRowThreads = kWarp * kWarp;

struct RowScore {
  float score = 0;
  int row = -1;  // -1: none
  __device__ bool beats(const RowScore& other) const {
    return row >= 0 && (other.row < 0 || score > other.score || (score == other.score && row < other.row));
  }
};

__device__ inline RowScore best_of_warp(RowScore mine) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    const RowScore other{__shfl_xor_sync(0xFFFFFFFFu, mine.score, offset),
                         __shfl_xor_sync(0xFFFFFFFFu, mine.row, offset)};
    if (other.beats(mine)) mine = other;
  }
  return mine;
}

/// Returns the best of what the threads have found, in every thread; what they wrote before is visible then. `of_warps`
/// holds kWarp scores of shared memory.
__device__ inline RowScore best_of_block(RowScore mine, RowScore* of_warps) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  mine = best_of_warp(mine);
  if (lane == 0) of_warps[warp] = mine;
  __syncthreads();
  mine = best_of_warp(of_warps[lane]);
  __syncthreads();  // before they are written again
  return mine;
}

}  // namespace ocellus::cuda
