// Memory reads of the kernels of attend_step.
#pragma once

#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace ocellus::cuda {

/// Loads 16 bytes, bypassing the L1 cache, or returns zeros.
__device__ inline uint4 load_16_if(bool wanted, const void* from) {
  uint4 to;
  asm volatile(
      "{\n.reg .pred wanted;\nsetp.ne.s32 wanted, %5, 0;\n"
      "mov.u32 %0, 0;\nmov.u32 %1, 0;\nmov.u32 %2, 0;\nmov.u32 %3, 0;\n"
      "@wanted ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];\n}\n"
      : "=&r"(to.x), "=&r"(to.y), "=&r"(to.z), "=&r"(to.w)
      : "l"(__cvta_generic_to_global(from)), "r"(static_cast<int>(wanted))
      : "memory");
  return to;
}

/// Loads a value, or returns zero. Loads of this kind are issued in the order in which they are written, without
/// waiting for each other.
__device__ inline __half load_if(bool wanted, const __half* from) {
  uint16_t to;
  asm volatile("{\n.reg .pred wanted;\nsetp.ne.s32 wanted, %2, 0;\nmov.u16 %0, 0;\n@wanted ld.global.u16 %0, [%1];\n}\n"
               : "=&h"(to)
               : "l"(__cvta_generic_to_global(from)), "r"(static_cast<int>(wanted))
               : "memory");
  return __ushort_as_half(to);
}
__device__ inline float load_if(bool wanted, const float* from) {
  float to;
  asm volatile(
      "{\n.reg .pred wanted;\nsetp.ne.s32 wanted, %2, 0;\nmov.f32 %0, 0f00000000;\n@wanted ld.global.f32 %0, [%1];\n}\n"
      : "=&f"(to)
      : "l"(__cvta_generic_to_global(from)), "r"(static_cast<int>(wanted))
      : "memory");
  return to;
}

/// Loads a pointer, bypassing the L1 cache.
template <class T>
__device__ inline T* load_pointer(T* const& from) {
  return reinterpret_cast<T*>(__ldcg(reinterpret_cast<const unsigned long long*>(&from)));
}

/// Prefetches memory into the L2 cache. From compute capability 9.0 on; `bytes` a multiple of 16.
__device__ inline void fetch_ahead([[maybe_unused]] const std::byte* from, [[maybe_unused]] int bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;\n" ::"l"(__cvta_generic_to_global(from)), "r"(bytes)
               : "memory");
#endif
}

/// Loads kWords words from global memory, bypassing the L1 cache, aligned to as many bytes, or to 16.
template <int kWords>
__device__ inline void load_words_if(bool wanted, const void* from, uint32_t (&to)[kWords]) {
  if constexpr (kWords == 1) {
    to[0] = wanted ? __ldcg(static_cast<const uint32_t*>(from)) : 0;
  } else if constexpr (kWords == 2) {
    const uint2 words = wanted ? __ldcg(static_cast<const uint2*>(from)) : uint2{};
    to[0] = words.x;
    to[1] = words.y;
  } else {
    static_assert(kWords % 4 == 0);
#pragma unroll
    for (int i = 0; i < kWords; i += 4) {
      const uint4 words = load_16_if(wanted, static_cast<const uint32_t*>(from) + i);
      to[i] = words.x;
      to[i + 1] = words.y;
      to[i + 2] = words.z;
      to[i + 3] = words.w;
    }
  }
}
/// The same from shared memory.
template <int kWords>
__device__ inline void copy_words(const __half* from, uint32_t (&to)[kWords]) {
  using Vector = std::conditional_t<kWords % 4 == 0, uint4, std::conditional_t<kWords % 2 == 0, uint2, uint32_t>>;
  constexpr int kOfVector = sizeof(Vector) / 4;
#pragma unroll
  for (int i = 0; i < kWords; i += kOfVector)
    *reinterpret_cast<Vector*>(to + i) = *reinterpret_cast<const Vector*>(from + 2 * i);
}

}  // namespace ocellus::cuda
