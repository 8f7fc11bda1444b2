// Small device helpers shared by the kernels: f16 access, reductions, 16-byte loads.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "platform/round_up.h"
#include "platform/views.h"

namespace ocellus::cuda {

inline constexpr int kWarp = 32;
inline constexpr float kLargestHalf = 65504.0f;
static_assert(sizeof(Half) == sizeof(__half), "Half is __half, bit for bit");

/// Rounds to nearest even; magnitudes above the largest f16 become that, NaN stays NaN.
__device__ inline __half round_half(float x) {
  return __float2half_rn(x > kLargestHalf ? kLargestHalf : x < -kLargestHalf ? -kLargestHalf : x);
}
__device__ inline __half2 round_half2(float x, float y) { return __halves2half2(round_half(x), round_half(y)); }

__device__ inline float load_value(const float* p) { return *p; }
__device__ inline float load_value(const __half* p) { return __half2float(*p); }
__device__ inline void store_value(float* p, float x) { *p = x; }
__device__ inline void store_value(__half* p, float x) { *p = round_half(x); }

__device__ inline float warp_sum(float x) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, offset);
  return x;
}
__device__ inline float warp_max(float x) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, offset));
  return x;
}

/// Returns the sum over a block, in every thread. All threads call it; `room` holds 32 floats of shared memory and may
/// be reused after a barrier.
__device__ inline float block_sum(float x, float* room) {
  const int warps = static_cast<int>(blockDim.x + kWarp - 1) / kWarp;
  x = warp_sum(x);
  if (threadIdx.x % kWarp == 0) room[threadIdx.x / kWarp] = x;
  __syncthreads();
  x = static_cast<int>(threadIdx.x % kWarp) < warps ? room[threadIdx.x % kWarp] : 0.0f;
  return warp_sum(x);
}

}  // namespace ocellus::cuda
