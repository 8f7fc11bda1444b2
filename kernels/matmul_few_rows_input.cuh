// The input of few-row products: rmsnorm where asked for, and rounding to f16 or int8 in the order the tensor cores
// read.
#pragma once

#include <cstdint>

#include "kernels/device_math.cuh"
#include "kernels/matmul_few_rows_work.cuh"

namespace ocellus::cuda {

inline constexpr int kItem = 4;           // values a thread rounds at once
inline constexpr int kItemsPerGroup = 8;  // neighbouring lanes hold a group

/// Groups of 32 that K values need; the last may be filled up with zeros.
__host__ __device__ constexpr int groups_of(int cols) { return (cols + 31) / 32; }

/// Values col..col + 3 of input row t; zeros behind the row.
__device__ inline float4 load_item(const FewRowsInput& input, int t, int col) {
  float4 x{};
  if (col >= input.cols) return x;
  if (input.is_half) {
    const __half* p = static_cast<const __half*>(input.data) + t * input.stride + col;
    if (input.is_wide) {
      const uint2 bits = *reinterpret_cast<const uint2*>(p);
      const float2 front = __half22float2(*reinterpret_cast<const __half2*>(&bits.x));
      const float2 back = __half22float2(*reinterpret_cast<const __half2*>(&bits.y));
      return {front.x, front.y, back.x, back.y};
    }
    return {__half2float(p[0]), __half2float(p[1]), __half2float(p[2]), __half2float(p[3])};
  }
  const float* p = static_cast<const float*>(input.data) + t * input.stride + col;
  if (input.is_wide) return *reinterpret_cast<const float4*>(p);
  return {p[0], p[1], p[2], p[3]};
}

/// Sum over the eight lanes of a group; the same in all of them.
template <class Value, class Combine>
__device__ inline Value over_group(Value x, Combine combine) {
  const unsigned mask = 0xFFu << (threadIdx.x % kWarp / kItemsPerGroup * kItemsPerGroup);
#pragma unroll
  for (int offset = kItemsPerGroup / 2; offset > 0; offset /= 2) x = combine(x, __shfl_xor_sync(mask, x, offset));
  return x;
}

/// Rounds an item and stores it. The eight lanes of a group call it together.
template <bool kPlain>
__device__ inline void store_item(const float4& x, int t, int item, const RoundedRows& out) {
  constexpr float kSmallestInput = 1e-30f;  // below it a group counts as zero, as on the CPU
  const int group = item / kItemsPerGroup, word = item % kItemsPerGroup;
  const int64_t place = int64_t{group} * out.columns + t;
  if constexpr (kPlain) {
    const uint2 halves{pack_halves(x.x, x.y), pack_halves(x.z, x.w)};
    *reinterpret_cast<uint2*>(out.values + 64 * place + 8 * word) = halves;
  } else {
    const float largest = over_group(fmaxf(fmaxf(fabsf(x.x), fabsf(x.y)), fmaxf(fabsf(x.z), fabsf(x.w))),
                                     [](float a, float b) { return fmaxf(a, b); });
    const bool zero = !(largest > kSmallestInput);
    const float inverse = zero ? 0.0f : 127.0f / largest;
    const auto code = [&](float value) { return max(-127, min(127, __float2int_rn(value * inverse))); };
    const int codes[4] = {code(x.x), code(x.y), code(x.z), code(x.w)};
    const int sum = over_group(codes[0] + codes[1] + codes[2] + codes[3], [](int a, int b) { return a + b; });
    const uint32_t packed = (static_cast<uint32_t>(codes[0]) & 255) | (static_cast<uint32_t>(codes[1]) & 255) << 8 |
                            (static_cast<uint32_t>(codes[2]) & 255) << 16 | static_cast<uint32_t>(codes[3]) << 24;
    *reinterpret_cast<uint32_t*>(out.values + 32 * place + 4 * ((word & 3) * 2 + (word >> 2))) = packed;
    const float scale = zero ? 0.0f : largest / 127.0f;
    if (word == 0) out.scales[place] = {scale, scale * static_cast<float>(sum)};
  }
}

__device__ inline float4 normalised(const float4& x, float scale, const float* weight, int col, int cols) {
  if (col >= cols) return {};
  const float* w = weight + col;
  return {x.x * scale * w[0], x.y * scale * w[1], x.z * scale * w[2], x.w * scale * w[3]};
}

__device__ inline float squares_of(const float4& x) { return x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w; }

/// 1 / rms of every input row, in room[0..T). Warps share the rows; `room` has a float for every warp besides.
__device__ inline void find_row_scales(const FewRowsInput& input, float* room) {
  const int warps = static_cast<int>(blockDim.x) / kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int parts = warps / input.rows;  // warps that share a row
  float* sums = room + kMostOwnTokens;
  if (warp / parts < input.rows) {
    float sum = 0;
#pragma unroll 4
    for (int col = kItem * (warp % parts * kWarp + lane); col < input.cols; col += kItem * kWarp * parts)
      sum += squares_of(load_item(input, warp / parts, col));
    sum = warp_sum(sum);
    if (lane == 0) sums[warp] = sum;
  }
  __syncthreads();
  if (static_cast<int>(threadIdx.x) < input.rows) {
    float sum = 0;
    for (int i = 0; i < parts; ++i) sum += sums[static_cast<int>(threadIdx.x) * parts + i];
    room[threadIdx.x] = rsqrtf(sum / static_cast<float>(input.cols) + input.epsilon);
  }
  __syncthreads();
}

/// Rounds all input rows into the block's shared memory. Ends with a barrier.
template <bool kPlain>
__device__ inline void round_own_rows(const FewRowsInput& input, const RoundedRows& out, float* room) {
  constexpr int kBatch = 4;  // loads in flight
  const bool norm = input.norm_weight != nullptr;
  if (norm) find_row_scales(input, room);
  const int items = kItemsPerGroup * groups_of(input.cols), all = items * input.rows;
  const int step = static_cast<int>(blockDim.x);
  for (int begin = static_cast<int>(threadIdx.x); begin < all; begin += kBatch * step) {
    float4 x[kBatch];
    int rows[kBatch], places[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      rows[i] = 0;
      places[i] = begin + i * step;
      if (places[i] >= all) continue;
      for (; places[i] >= items; ++rows[i]) places[i] -= items;
      x[i] = load_item(input, rows[i], kItem * places[i]);
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (begin + i * step >= all) continue;
      const int col = kItem * places[i];
      if (norm) x[i] = normalised(x[i], room[rows[i]], input.norm_weight, col, input.cols);
      store_item<kPlain>(x[i], rows[i], places[i], out);
    }
  }
  __syncthreads();
}

}  // namespace ocellus::cuda
