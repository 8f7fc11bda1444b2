// Rows of floats as pairs of bf16, for CPUs that multiply pairs. A pair takes the place of a float, its first value in
// the lower half. Compiled once per Highway target.
#if defined(OCELLUS_KERNELS_PAIRS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef OCELLUS_KERNELS_PAIRS_INL_H
#undef OCELLUS_KERNELS_PAIRS_INL_H
#else
#define OCELLUS_KERNELS_PAIRS_INL_H
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/base/vectors-inl.h"

#undef OCELLUS_PAIRS
#define OCELLUS_PAIRS (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL)

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {

#if OCELLUS_PAIRS

// Written out: the compiler's own are not to be had for Highway's target.

/// sums += both products of every lane's pairs.
HWY_INLINE FloatVec add_pairs(FloatVec a, FloatVec b, FloatVec sums) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sums.raw) : "v"(a.raw), "v"(b.raw));
  return sums;
}

/// Sixteen values of each, rounded to nearest even; `first` in the lower half of the vector.
HWY_INLINE __m512i round_to_bf16(__m512 first, __m512 second) {
  __m512i halves;
  asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(halves) : "v"(first), "v"(second));
  return halves;
}

/// Neighbours become pairs, in place; `count` is divisible by 8.
HWY_INLINE void pair_neighbours(float* values, int64_t count) {
  for (int64_t i = 0; i < count; i += 32) {
    const int64_t left = count - i;
    const auto low = static_cast<__mmask16>(left >= 16 ? 0xFFFF : 0xFF);
    const auto high = static_cast<__mmask16>(left >= 32 ? 0xFFFF : left == 24 ? 0xFF : 0);
    const __m512i pairs =
        round_to_bf16(_mm512_maskz_loadu_ps(low, values + i), _mm512_maskz_loadu_ps(high, values + i + 16));
    _mm512_mask_storeu_epi32(values + i / 2, left >= 32 ? 0xFFFF : static_cast<__mmask16>((1 << left / 2) - 1), pairs);
  }
}

/// Rows 2 i and 2 i + 1 become row i of pairs, in place; an odd last row is paired with zeros. `width` is divisible
/// by 8.
HWY_INLINE void pair_rows(float* rows, int64_t count, int64_t width) {
  const hn::ScalableTag<uint16_t> d;
  HWY_ALIGN static constexpr uint16_t kZip[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                  8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i zip = hn::Load(d, kZip).raw;
  for (int64_t i = 0; i < count; i += 2)
    for (int64_t e = 0; e < width; e += 16) {
      const auto mask = static_cast<__mmask16>(width - e >= 16 ? 0xFFFF : 0xFF);
      const __m512 first = _mm512_maskz_loadu_ps(mask, rows + i * width + e);
      const __m512 second = _mm512_maskz_loadu_ps(i + 1 < count ? mask : 0, rows + (i + 1) * width + e);
      _mm512_mask_storeu_epi32(rows + i / 2 * width + e, mask,
                               _mm512_permutexvar_epi16(zip, round_to_bf16(first, second)));
    }
}

#else

HWY_INLINE FloatVec add_pairs(FloatVec, FloatVec, FloatVec sums) { return sums; }
HWY_INLINE void pair_neighbours(float*, int64_t) {}
HWY_INLINE void pair_rows(float*, int64_t, int64_t) {}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#endif  // OCELLUS_KERNELS_PAIRS_INL_H
