// Memory access of the row kernels: several values at a time if addresses allow it, and rows divided into pieces of one
// block each.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/base/device_math.cuh"
#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus::cuda {

inline constexpr int kAccessBytes = 16;  // per load or store, at most

// One access, as bits. The stores are intrinsics because the compiler splits some plain ones into four.
__device__ inline void load_bits(const void* from, uint32_t (&to)[1]) { to[0] = *static_cast<const uint32_t*>(from); }
__device__ inline void load_bits(const void* from, uint32_t (&to)[2]) {
  const uint2 bits = *static_cast<const uint2*>(from);
  to[0] = bits.x, to[1] = bits.y;
}
__device__ inline void load_bits(const void* from, uint32_t (&to)[4]) {
  const uint4 bits = *static_cast<const uint4*>(from);
  to[0] = bits.x, to[1] = bits.y, to[2] = bits.z, to[3] = bits.w;
}
__device__ inline void store_bits(void* to, const uint32_t (&from)[1]) { *static_cast<uint32_t*>(to) = from[0]; }
__device__ inline void store_bits(void* to, const uint32_t (&from)[2]) {
  __stwb(static_cast<uint2*>(to), make_uint2(from[0], from[1]));
}
__device__ inline void store_bits(void* to, const uint32_t (&from)[4]) {
  __stwb(static_cast<uint4*>(to), make_uint4(from[0], from[1], from[2], from[3]));
}

/// Reads kWide values in accesses of up to 16 bytes; `from` is aligned to such an access (see takes_wide).
template <int kWide>
__device__ inline void load_values(const float* from, float (&to)[kWide]) {
  constexpr int kPart = kWide < 4 ? kWide : 4;
  static_assert(kWide % kPart == 0);
#pragma unroll
  for (int i = 0; i < kWide; i += kPart) {
    uint32_t bits[kPart];
    load_bits(from + i, bits);
#pragma unroll
    for (int k = 0; k < kPart; ++k) to[i + k] = __uint_as_float(bits[k]);
  }
}

template <int kWide>
__device__ inline void load_values(const __half* from, float (&to)[kWide]) {
  if constexpr (kWide == 1) {
    to[0] = __half2float(*from);
  } else {
    uint32_t bits[kWide / 2];
    load_bits(from, bits);
#pragma unroll
    for (int k = 0; k < kWide / 2; ++k) {
      const float2 pair = __half22float2(reinterpret_cast<const __half2&>(bits[k]));
      to[2 * k] = pair.x;
      to[2 * k + 1] = pair.y;
    }
  }
}

template <int kWide>
__device__ inline void store_values(float* to, const float (&from)[kWide]) {
  constexpr int kPart = kWide < 4 ? kWide : 4;
  static_assert(kWide % kPart == 0);
#pragma unroll
  for (int i = 0; i < kWide; i += kPart) {
    uint32_t bits[kPart];
#pragma unroll
    for (int k = 0; k < kPart; ++k) bits[k] = __float_as_uint(from[i + k]);
    store_bits(to + i, bits);
  }
}

/// Rounds to nearest even; larger values become the largest f16.
template <int kWide>
__device__ inline void store_values(__half* to, const float (&from)[kWide]) {
  if constexpr (kWide == 1) {
    *to = round_half(from[0]);
  } else {
    uint32_t bits[kWide / 2];
#pragma unroll
    for (int k = 0; k < kWide / 2; ++k) {
      const __half2 pair = round_half2(from[2 * k], from[2 * k + 1]);
      bits[k] = reinterpret_cast<const uint32_t&>(pair);
    }
    store_bits(to, bits);
  }
}

/// True if every `wide` values of a row, counted from its start, can be accessed with up to 16 bytes at a time.
inline bool takes_wide(const void* data, int64_t stride, int64_t value_bytes, int wide) {
  const int64_t bytes = std::min<int64_t>(kAccessBytes, value_bytes * wide);
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(bytes) == 0 && stride * value_bytes % bytes == 0;
}
inline bool takes_wide(const float* values, int wide) { return takes_wide(values, 0, 4, wide); }
template <class T>
bool takes_wide(const DeviceView<T>& v, int wide) {
  return takes_wide(v.data, v.stride, sizeof(T), wide);
}
inline bool takes_wide(const ActivationView& v, int wide) {
  return takes_wide(v.data, v.stride, v.value_bytes(), wide);
}

inline __half* half_data(const ActivationView& view) { return static_cast<__half*>(view.data); }

/// Fails the queue unless the rows are f16, as activations on CUDA are.
inline bool is_half(const ActivationView& view, const char* op, Queue& queue) {
  if (view.type == ActivationType::kF16) return true;
  queue.fail(OCELLUS_FAIL(Code::kInternal, "%s: activations on CUDA are f16, and these are f32", op));
  return false;
}

/// A matrix of `rows` rows of `units` (values, or groups of them) each, divided into pieces of one block. A thread
/// takes kUnitsPerThread units, a block's width apart: enough bytes in flight to hide the memory's latency.
struct RowPieces {
  static constexpr int kUnitsPerThread = 2;
  static constexpr int64_t kMaxThreads = 256;

  int threads = kWarp;
  unsigned per_row = 1;
  unsigned blocks = 0;

  RowPieces(int64_t rows, int64_t units) {
    const int64_t wanted = divide_up(std::max<int64_t>(units, 1), kUnitsPerThread);
    const int64_t pieces = divide_up(wanted, kMaxThreads);
    threads = static_cast<int>(divide_up(divide_up(wanted, pieces), kWarp) * kWarp);
    per_row = static_cast<unsigned>(pieces);
    blocks = static_cast<unsigned>(rows * pieces);
  }
};

/// The part of a thread: units first, first + step, ... of `row`.
struct RowPlace {
  int64_t row;
  int64_t first;
  int64_t step;

  __device__ explicit RowPlace(unsigned pieces_per_row)
      : row(blockIdx.x / pieces_per_row),
        first(int64_t{blockIdx.x % pieces_per_row} * RowPieces::kUnitsPerThread * blockDim.x + threadIdx.x),
        step(blockDim.x) {}
};

}  // namespace ocellus::cuda
