// Products of a warpgroup, four warps that start at a multiple of four, on compute capability 9.0 only. They run
// asynchronously; see "asynchronous warpgroup level matrix instructions" in the PTX manual. The left factor and the
// sums are in registers, laid out like those of the products in attend_tile.cuh, 16 rows per warp; the right factor is
// in shared memory, given by a descriptor.
#pragma once

#include <cstdint>

namespace ocellus::cuda {

/// Makes this thread's copies into shared memory visible to products; call it before the barrier of their readers.
__device__ inline void show_copies_to_products() { asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory"); }
/// Begins a batch of products, which read and add to registers written until here.
__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
__device__ inline void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }
/// Waits until at most kPending batches are pending.
template <int kPending>
__device__ inline void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(kPending) : "memory");
}
/// Keeps the compiler from moving uses of sums across this point: it does not know that products write them late.
template <int kMatrices>
__device__ void settle(float (&sums)[kMatrices][4]) {
#pragma unroll
  for (int n = 0; n < kMatrices; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(sums[n][i])::"memory");
}

// clang-format off
#define OCELLUS_MATRIX(m) "+f"((m)[0]), "+f"((m)[1]), "+f"((m)[2]), "+f"((m)[3])

/// sums [64, 64] += a [64, 16] b [16, 64], or = if not `add`.
template <bool kTurned>
__device__ void multiply_add(float (&sums)[8][4], const uint32_t (&a)[4], uint64_t b, bool add) {
  asm volatile(
      "{.reg .pred add; setp.ne.b32 add, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %36, add, 1, 1, %38;}\n"
      : OCELLUS_MATRIX(sums[0]), OCELLUS_MATRIX(sums[1]), OCELLUS_MATRIX(sums[2]), OCELLUS_MATRIX(sums[3]),
        OCELLUS_MATRIX(sums[4]), OCELLUS_MATRIX(sums[5]), OCELLUS_MATRIX(sums[6]), OCELLUS_MATRIX(sums[7])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int{add}), "n"(int{kTurned}));
}

/// sums [64, 72] += a [64, 16] b [16, 72], or = if not `add`.
template <bool kTurned>
__device__ void multiply_add(float (&sums)[9][4], const uint32_t (&a)[4], uint64_t b, bool add) {
  asm volatile(
      "{.reg .pred add; setp.ne.b32 add, %41, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n72k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35}, "
      "{%36, %37, %38, %39}, %40, add, 1, 1, %42;}\n"
      : OCELLUS_MATRIX(sums[0]), OCELLUS_MATRIX(sums[1]), OCELLUS_MATRIX(sums[2]), OCELLUS_MATRIX(sums[3]),
        OCELLUS_MATRIX(sums[4]), OCELLUS_MATRIX(sums[5]), OCELLUS_MATRIX(sums[6]), OCELLUS_MATRIX(sums[7]),
        OCELLUS_MATRIX(sums[8])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int{add}), "n"(int{kTurned}));
}

/// sums [64, 128] += a [64, 16] b [16, 128], or = if not `add`.
template <bool kTurned>
__device__ void multiply_add(float (&sums)[16][4], const uint32_t (&a)[4], uint64_t b, bool add) {
  asm volatile(
      "{.reg .pred add; setp.ne.b32 add, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "{%64, %65, %66, %67}, %68, add, 1, 1, %70;}\n"
      : OCELLUS_MATRIX(sums[0]), OCELLUS_MATRIX(sums[1]), OCELLUS_MATRIX(sums[2]), OCELLUS_MATRIX(sums[3]),
        OCELLUS_MATRIX(sums[4]), OCELLUS_MATRIX(sums[5]), OCELLUS_MATRIX(sums[6]), OCELLUS_MATRIX(sums[7]),
        OCELLUS_MATRIX(sums[8]), OCELLUS_MATRIX(sums[9]), OCELLUS_MATRIX(sums[10]), OCELLUS_MATRIX(sums[11]),
        OCELLUS_MATRIX(sums[12]), OCELLUS_MATRIX(sums[13]), OCELLUS_MATRIX(sums[14]), OCELLUS_MATRIX(sums[15])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int{add}), "n"(int{kTurned}));
}

#undef OCELLUS_MATRIX
// clang-format on

}  // namespace ocellus::cuda
