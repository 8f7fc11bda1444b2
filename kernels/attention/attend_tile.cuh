// Building blocks of tiled attention: asynchronous copies into shared memory, matrix fragments and their products.
// Available from compute capability 8.0 on. Layouts of fragments are those of the PTX manual, "Matrix fragments for
// mma.m16n8k16 with floating point type"; lane l of a warp is row l / 4 and columns 2 (l % 4) of every 8 x 8 matrix.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>

namespace ocellus::cuda {

__device__ inline uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

/// Begins to copy 16 bytes, of which `bytes` (0 or 16) are read and the rest are zeros. Both ends are aligned to 16
/// bytes.
__device__ inline void copy_16_async(void* to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared_address(to)), "l"(from), "r"(bytes));
}
__device__ inline void copy_8_async(void* to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;\n" ::"r"(shared_address(to)), "l"(from));
}
/// Closes the group of copies begun since the last call.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;\n" ::); }
/// Waits until at most kPending groups of this thread are pending.
template <int kPending>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending) : "memory");
}

/// Four 8 x 8 matrices of f16; lanes 8 i .. 8 i + 7 point at the rows of matrix i.
__device__ inline void load_matrices(uint32_t (&to)[4], const __half* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}
/// Loads four matrices, each transposed.
__device__ inline void load_matrices_transposed(uint32_t (&to)[4], const __half* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}

/// sums [16, 8] += a [16, 16] b [16, 8]
__device__ inline void multiply_add(float (&sums)[4], const uint32_t (&a)[4], uint32_t b_low, uint32_t b_high) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};\n"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_low), "r"(b_high));
}

/// 2^x within 2 units of the last place; 0 for minus infinity, exactly 1 for 0.
__device__ inline float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}

/// Rounds two floats to f16, the first in the low half. They must be within the range of f16.
__device__ inline uint32_t pack_halves(float low, float high) {
  const __half2 both = __floats2half2_rn(low, high);
  uint32_t bits;
  memcpy(&bits, &both, sizeof bits);
  return bits;
}

}  // namespace ocellus::cuda
