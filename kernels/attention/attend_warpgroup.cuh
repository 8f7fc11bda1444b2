// Products of a warpgroup, four warps that start at a multiple of four, on compute capability 9.0 only. They run
// asynchronously; see "asynchronous warpgroup level matrix instructions" in the PTX manual. The sums are
// in registers, laid out like those of the products in attend_tile.cuh, 16 rows per warp, and so is the left factor,
// or it is in shared memory like the right one, each given by a descriptor.
#pragma once

#include <cstdint>

namespace ocellus::cuda {

/// Makes copies into shared memory visible to products; call it between the two, in the thread that copied before the
/// barrier of the readers, or in the readers after it.
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

inline constexpr int kGroupThreads = 128;
inline constexpr int kGroupRows = 64;

/// A descriptor: address, leading and stride offset in bytes, swizzling of 128 bytes or none. "Matrix descriptor
/// format" and "strides" in the PTX manual.
__host__ __device__ constexpr uint64_t descriptor_bits(int leading, int stride, bool swizzled) {
  return static_cast<uint64_t>(leading / 16) << 16 | static_cast<uint64_t>(stride / 16) << 32 |
         static_cast<uint64_t>(swizzled) << 62;
}

/// Columns 16 k .. of a matrix of kCount rows (queries, or keys) as a factor of scores: eight rows and the next eight
/// are a stride apart, in plain layout the two units are a leading offset apart.
template <class T, int kCount>
__device__ uint64_t row_factor(uint32_t matrix, int k) {
  constexpr int kUnit = kCount * 16;
  constexpr uint64_t kBits = T::kSwizzled ? descriptor_bits(16, 1024, true) : descriptor_bits(kUnit, 128, false);
  return kBits | (matrix + (T::kSwizzled ? k / 4 * (kCount * 128) + k % 4 * 32 : 2 * k * kUnit)) / 16;
}

/// Slots 16 k .. of all values of a stage, as the right factor of weights, turned over. Swizzled: eight slots and the
/// next eight are a stride apart, panels a leading offset. Plain: eight slots and the next eight are a leading offset
/// apart, units a stride.
template <class T>
__device__ uint64_t value_factor(uint32_t values, int k) {
  constexpr uint64_t kBits =
      T::kSwizzled ? descriptor_bits(T::kSlots * 128, 1024, true) : descriptor_bits(128, T::kSlots * 16, false);
  return kBits | (values + k * (T::kSwizzled ? 16 * 128 : 16 * 16)) / 16;
}

// clang-format off
#define OCELLUS_SUMS_4(m, n) "+f"((m)[n][0]), "+f"((m)[n][1]), "+f"((m)[n][2]), "+f"((m)[n][3])
#define OCELLUS_SUMS_8(m, n) OCELLUS_SUMS_4(m, n), OCELLUS_SUMS_4(m, n + 1)
#define OCELLUS_SUMS_32(m, n) OCELLUS_SUMS_8(m, n), OCELLUS_SUMS_8(m, n + 2), OCELLUS_SUMS_8(m, n + 4), OCELLUS_SUMS_8(m, n + 6)
/// Registers of an instruction, by their operands.
#define OCELLUS_AT_32 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define OCELLUS_AT_64 \
  OCELLUS_AT_32 ", " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define OCELLUS_AT_128 \
  OCELLUS_AT_64 ", " \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

/// sums [64, 64] += a [64, 16] b [16, 64], where b is turned over in memory: row by row.
__device__ inline void add_product(float (&sums)[8][4], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "{.reg .pred add; setp.eq.b32 add, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" OCELLUS_AT_32 "}, "
      "{%32, %33, %34, %35}, %36, add, 1, 1, 1;}\n"
      : OCELLUS_SUMS_32(sums, 0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
/// sums [64, 64] += a [64, 16] b [16, 64], or = if not `add`, both in shared memory, where b lies column by column.
__device__ inline void multiply(float (&sums)[8][4], uint64_t a, uint64_t b, bool add) {
  asm volatile(
      "{.reg .pred add; setp.ne.b32 add, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" OCELLUS_AT_32 "}, %32, %33, add, 1, 1, 0, 0;}\n"
      : OCELLUS_SUMS_32(sums, 0)
      : "l"(a), "l"(b), "r"(int{add}));
}
/// The same, the left factor in registers.
__device__ inline void multiply(float (&sums)[8][4], const uint32_t (&a)[4], uint64_t b, bool add) {
  asm volatile(
      "{.reg .pred add; setp.ne.b32 add, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" OCELLUS_AT_32 "}, "
      "{%32, %33, %34, %35}, %36, add, 1, 1, 0;}\n"
      : OCELLUS_SUMS_32(sums, 0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int{add}));
}

/// sums [64, 72] += a [64, 16] b [16, 72], where b is turned over in memory: row by row.
__device__ inline void add_product(float (&sums)[9][4], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "{.reg .pred add; setp.eq.b32 add, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n72k16.f32.f16.f16 {" OCELLUS_AT_32 ", %32, %33, %34, %35" "}, "
      "{%36, %37, %38, %39}, %40, add, 1, 1, 1;}\n"
      : OCELLUS_SUMS_32(sums, 0), OCELLUS_SUMS_4(sums, 8)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

/// sums [64, 128] += a [64, 16] b [16, 128], where b is turned over in memory: row by row.
__device__ inline void add_product(float (&sums)[16][4], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "{.reg .pred add; setp.eq.b32 add, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" OCELLUS_AT_64 "}, "
      "{%64, %65, %66, %67}, %68, add, 1, 1, 1;}\n"
      : OCELLUS_SUMS_32(sums, 0), OCELLUS_SUMS_32(sums, 8)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
/// sums [64, 128] += a [64, 16] b [16, 128], or = if not `add`, both in shared memory, where b lies column by column.
__device__ inline void multiply(float (&sums)[16][4], uint64_t a, uint64_t b, bool add) {
  asm volatile(
      "{.reg .pred add; setp.ne.b32 add, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" OCELLUS_AT_64 "}, %64, %65, add, 1, 1, 0, 0;}\n"
      : OCELLUS_SUMS_32(sums, 0), OCELLUS_SUMS_32(sums, 8)
      : "l"(a), "l"(b), "r"(int{add}));
}

/// sums [64, 256] += a [64, 16] b [16, 256], where b is turned over in memory: row by row.
__device__ inline void add_product(float (&sums)[32][4], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "{.reg .pred add; setp.eq.b32 add, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {" OCELLUS_AT_128 "}, "
      "{%128, %129, %130, %131}, %132, add, 1, 1, 1;}\n"
      : OCELLUS_SUMS_32(sums, 0), OCELLUS_SUMS_32(sums, 8), OCELLUS_SUMS_32(sums, 16), OCELLUS_SUMS_32(sums, 24)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

#undef OCELLUS_AT_128
#undef OCELLUS_AT_64
#undef OCELLUS_AT_32
#undef OCELLUS_SUMS_32
#undef OCELLUS_SUMS_8
#undef OCELLUS_SUMS_4
// clang-format on

}  // namespace ocellus::cuda
