// The input of FewRowsPlan::kTiles: rows of f16, of which each warp keeps its slice of columns in registers, as the
// second operand (k x 8) of the tensor cores.
#pragma once

#include "kernels/linear/few_rows/tile_units.cuh"

namespace ocellus::cuda {

inline constexpr float kHalfSumScale = 16;  // sums of halves of groups are kept as means, which f16 always holds

/// Lane 4g + q has input row g. Plain: values 8q..8q + 7 of every group of 32. Codes: values 4q..4q + 3 of its
/// halves, and with kSums the means of the halves: 2q, 2q + 1 of the first four groups, then of the last four, as f16
/// and what that leaves.
template <bool kPlain, bool kSums>
struct TileInput {
  uint32_t values[kSliceGroups][4];
  uint32_t means[2][2];

  __device__ void load(const TileInputRows& rows, int slice) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp, g = lane / 4, q = lane % 4;
    const bool exists = g < rows.rows;
    const __half* row = rows.data + g * rows.stride;
#pragma unroll
    for (int i = 0; i < kSliceGroups; ++i) {
      const int col = slice * kSliceWeights + 32 * i;
      uint4 x{};
      if constexpr (kPlain) {
        if (exists && col + 8 * q < rows.cols) x = *reinterpret_cast<const uint4*>(row + col + 8 * q);
      } else if (exists && col < rows.cols) {
        const uint2 front = *reinterpret_cast<const uint2*>(row + col + 4 * q);
        const uint2 back = *reinterpret_cast<const uint2*>(row + col + 16 + 4 * q);
        x = {front.x, front.y, back.x, back.y};
      }
      values[i][0] = x.x, values[i][1] = x.y, values[i][2] = x.z, values[i][3] = x.w;
    }
    if constexpr (kSums) find_means(g);
  }

 private:
  static __device__ uint32_t transposed(uint32_t pair) {
    uint32_t out;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(out) : "r"(pair));
    return out;
  }
  /// Half h of the slice is row h of a matrix that is one there and zero elsewhere, times the input.
  __device__ void find_means(int g) {
    constexpr uint32_t kSixteenth = 0x2C002C00u;  // 1 / kHalfSumScale, twice
    float sums[4] = {};
#pragma unroll
    for (int i = 0; i < kSliceGroups; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32_t ones = g == (2 * i + half) % 8 ? kSixteenth : 0;
        const uint32_t above = i < 4 ? ones : 0, below = i < 4 ? 0 : ones;
        add_halves(sums, above, below, above, below, values[i][2 * half], values[i][2 * half + 1]);
      }
#pragma unroll
    for (int four = 0; four < 2; ++four) {
      const float x = sums[2 * four], y = sums[2 * four + 1];
      const __half2 rounded = __floats2half2_rn(x, y);
      const float2 back = __half22float2(rounded);
      const __half2 rest = __floats2half2_rn(x - back.x, y - back.y);
      means[four][0] = transposed(*reinterpret_cast<const uint32_t*>(&rounded));
      means[four][1] = transposed(*reinterpret_cast<const uint32_t*>(&rest));
    }
  }
};

}  // namespace ocellus::cuda
