// The input of few-row products: optional rmsnorm, and rounding to f16 or int8 in the order that the tensor cores read.
#pragma once

#include <cstdint>

#include "kernels/base/device_math.cuh"
#include "kernels/base/launch.cuh"
#include "kernels/linear/few_rows/work.cuh"
#include "kernels/linear/weight_words.cuh"

namespace ocellus::cuda {

inline constexpr int kItem = 4;           // values that a thread rounds at once
inline constexpr int kItemsPerGroup = 8;  // a group is held by neighbouring lanes

/// Number of groups of 32 for K values; the last may be padded with zeros.
__host__ __device__ constexpr int groups_of(int cols) { return (cols + 31) / 32; }

/// Loads values col..col + 3 of input row t as stored; zeros after the row. Separate from load_item's arithmetic, so
/// that loads do not wait for each other.
__device__ inline uint4 load_bits(const FewRowsInput& input, int t, int col) {
  uint4 bits{};
  if (col >= input.cols) return bits;
  const int64_t at = t * input.stride + col;
  if (input.is_half) {
    const auto* p = static_cast<const uint16_t*>(input.data) + at;
    if (input.is_wide) {
      const uint2 pairs = *reinterpret_cast<const uint2*>(p);
      bits.x = pairs.x, bits.y = pairs.y;
    } else {
      bits.x = p[0] | static_cast<uint32_t>(p[1]) << 16, bits.y = p[2] | static_cast<uint32_t>(p[3]) << 16;
    }
    return bits;
  }
  const auto* p = static_cast<const uint32_t*>(input.data) + at;
  if (input.is_wide) return *reinterpret_cast<const uint4*>(p);
  return {p[0], p[1], p[2], p[3]};
}

__device__ inline float4 values_of(const FewRowsInput& input, const uint4& bits) {
  if (input.is_half) {
    const float2 front = __half22float2(*reinterpret_cast<const __half2*>(&bits.x));
    const float2 back = __half22float2(*reinterpret_cast<const __half2*>(&bits.y));
    return {front.x, front.y, back.x, back.y};
  }
  return {__uint_as_float(bits.x), __uint_as_float(bits.y), __uint_as_float(bits.z), __uint_as_float(bits.w)};
}

__device__ inline float4 load_item(const FewRowsInput& input, int t, int col) {
  return values_of(input, load_bits(input, t, col));
}

/// Combines over the eight lanes of a group; every lane gets the result.
template <class Value, class Combine>
__device__ inline Value over_group(Value x, Combine combine) {
  const unsigned mask = 0xFFu << (threadIdx.x % kWarp / kItemsPerGroup * kItemsPerGroup);
#pragma unroll
  for (int offset = kItemsPerGroup / 2; offset > 0; offset /= 2) x = combine(x, __shfl_xor_sync(mask, x, offset));
  return x;
}

/// Rounds an item and stores it. Called by the eight lanes of a group together.
template <bool kPlain, class Rows>
__device__ inline void store_item(const float4& x, int t, int item, const Rows& out) {
  constexpr float kSmallestInput = 1e-30f;  // smaller groups count as zero, as on the CPU
  const int group = item / kItemsPerGroup, word = item % kItemsPerGroup;
  if constexpr (kPlain) {
    const uint2 halves{pack_halves(x.x, x.y), pack_halves(x.z, x.w)};
    *reinterpret_cast<uint2*>(out.template value_at<true>(t, group, word)) = halves;
  } else {
    // Magnitudes are ordered as their bits are, with what is not a number above all, as on the CPU.
    const auto bits = [](float value) { return __float_as_int(fabsf(value)); };
    const float largest = __int_as_float(
        over_group(max(max(bits(x.x), bits(x.y)), max(bits(x.z), bits(x.w))), [](int a, int b) { return max(a, b); }));
    const bool zero = largest <= kSmallestInput;
    const float inverse = zero ? 0.0f : 127.0f / largest;
    const auto code = [&](float value) { return max(-127, min(127, __float2int_rn(value * inverse))); };
    const int codes[4] = {code(x.x), code(x.y), code(x.z), code(x.w)};
    const int sum = over_group(codes[0] + codes[1] + codes[2] + codes[3], [](int a, int b) { return a + b; });
    const uint32_t packed = (static_cast<uint32_t>(codes[0]) & 255) | (static_cast<uint32_t>(codes[1]) & 255) << 8 |
                            (static_cast<uint32_t>(codes[2]) & 255) << 16 | static_cast<uint32_t>(codes[3]) << 24;
    *reinterpret_cast<uint32_t*>(out.template value_at<false>(t, group, word)) = packed;
    const float scale = zero ? 0.0f : largest / 127.0f;
    if (word == 0) *out.scale_at(t, group) = {scale, scale * static_cast<float>(sum)};
  }
}

__device__ inline float4 normalised(const float4& x, float scale, const float* weight, int col, int cols) {
  if (col >= cols) return {};
  const float* w = weight + col;
  return {x.x * scale * w[0], x.y * scale * w[1], x.z * scale * w[2], x.w * scale * w[3]};
}

__device__ inline float squares_of(const float4& x) { return x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w; }

/// 1 / rms of every input row, in room[0..T). Warps share the rows; `room` also has a float per warp.
__device__ inline void find_row_scales(const FewRowsInput& input, float* room) {
  const int warps = static_cast<int>(blockDim.x) / kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int parts = warps / input.rows;  // warps that share a row
  float* sums = room + kMaxPerWarpRows;
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
template <bool kPlain, class Rows>
__device__ inline void round_own_rows(const FewRowsInput& input, const Rows& out, float* room) {
  constexpr int kBatch = 4;  // loads in flight
  const bool norm = input.norm_weight != nullptr;
  if (norm) find_row_scales(input, room);
  const int items = kItemsPerGroup * groups_of(input.cols), all = items * input.rows;
  const int step = static_cast<int>(blockDim.x);
  for (int begin = static_cast<int>(threadIdx.x); begin < all; begin += kBatch * step) {
    uint4 bits[kBatch];
    int rows[kBatch], places[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      rows[i] = 0;
      places[i] = begin + i * step;
      if (places[i] >= all) continue;
      for (; places[i] >= items; ++rows[i]) places[i] -= items;
      bits[i] = load_bits(input, rows[i], kItem * places[i]);
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (begin + i * step >= all) continue;
      const int col = kItem * places[i];
      float4 x = values_of(input, bits[i]);
      if (norm) x = normalised(x, room[rows[i]], input.norm_weight, col, input.cols);
      store_item<kPlain>(x, rows[i], places[i], out);
    }
  }
  __syncthreads();
}

/// One row with a norm, of at most kRowItems items per thread: the row is read once, and constants before it.
inline constexpr int kRowItems = 4;

template <bool kPlain, class Rows>
__device__ inline void round_own_row(const FewRowsInput& input, const Rows& out, float* room) {
  const int items = kItemsPerGroup * groups_of(input.cols), threads = static_cast<int>(blockDim.x);
  uint4 bits[kRowItems];
  float4 weight[kRowItems];
#pragma unroll
  for (int i = 0; i < kRowItems; ++i) {
    const int col = kItem * (static_cast<int>(threadIdx.x) + i * threads);
    const float* w = input.norm_weight + col;
    weight[i] = col < input.cols ? float4{w[0], w[1], w[2], w[3]} : float4{};
  }
  wait_for_inputs();
#pragma unroll
  for (int i = 0; i < kRowItems; ++i)
    bits[i] = load_bits(input, 0, kItem * (static_cast<int>(threadIdx.x) + i * threads));
  float squares = 0;
#pragma unroll
  for (int i = 0; i < kRowItems; ++i) squares += squares_of(values_of(input, bits[i]));
  const float scale = rsqrtf(block_sum(squares, room) / static_cast<float>(input.cols) + input.epsilon);
#pragma unroll
  for (int i = 0; i < kRowItems; ++i) {
    const int item = static_cast<int>(threadIdx.x) + i * threads;
    if (item >= items) break;  // whole groups end together
    const float4 x = values_of(input, bits[i]), &w = weight[i];
    store_item<kPlain>({x.x * scale * w.x, x.y * scale * w.y, x.z * scale * w.z, x.w * scale * w.w}, 0, item, out);
  }
  __syncthreads();
}

/// Waits for the input and rounds it into the block's shared memory. Ends with a barrier.
template <bool kPlain, class Rows>
__device__ inline void take_input(const FewRowsInput& input, const Rows& out, float* room) {
  const int items = kItemsPerGroup * groups_of(input.cols);
  if (input.rows == 1 && input.norm_weight != nullptr && items <= kRowItems * static_cast<int>(blockDim.x))
    return round_own_row<kPlain>(input, out, room);
  wait_for_inputs();
  round_own_rows<kPlain>(input, out, room);
}

}  // namespace ocellus::cuda
