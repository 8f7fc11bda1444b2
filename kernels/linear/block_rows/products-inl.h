// Products of 64 codes with inputs, and the scales of their lanes. Included once per CPU target.
#if defined(OCELLUS_KERNELS_BLOCK_ROWS_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OCELLUS_KERNELS_BLOCK_ROWS_PRODUCTS_INL_H_
#undef OCELLUS_KERNELS_BLOCK_ROWS_PRODUCTS_INL_H_
#else
#define OCELLUS_KERNELS_BLOCK_ROWS_PRODUCTS_INL_H_
#endif

#include "kernels/linear/block_rows/chunk-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using SumTag = hn::Repartition<int32_t, ByteTag>;
using LaneTag = hn::RebindToFloat<SumTag>;

// Adds products of codes with inputs, of neighbours in pairs or fours, to each lane of `sums`. Which lane gets what
// differs, but what comes of 16 codes stays in its quarter of a vector of 64. Codes that are not signed are below 64,
// except for VNNI. kNative: the CPU has the int8 dot product of Arm.
template <bool kSigned, bool kNative>
HWY_INLINE hn::Vec<SumTag> add_products(hn::Vec<SumTag> sums, Bytes codes, Bytes inputs) {
#if OCELLUS_VNNI
  // Written out: the compiler's own is not to be had for Highway's target (1.0.3 asks for avxvnni, not avx512vnni).
  asm("vpdpbusd %2, %1, %0" : "+v"(sums.raw) : "v"(codes.raw), "v"(inputs.raw));
  return sums;
#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  // Products of unsigned with signed bytes: signs of codes go over to the inputs. No pair reaches 2^15.
  __m256i left = codes.raw, right = inputs.raw;
  if constexpr (kSigned) {
    right = _mm256_sign_epi8(right, left);
    left = _mm256_abs_epi8(left);
  }
  const __m256i pairs = _mm256_maddubs_epi16(left, right);
  sums.raw = _mm256_add_epi32(sums.raw, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  return sums;
#else
#if HWY_ARCH_ARM_A64
  if constexpr (kNative) {
    // Written out, because the file is compiled for CPUs without it, too.
    asm(".arch armv8.2-a+crypto+dotprod\n\tsdot %0.4s, %1.16b, %2.16b"
        : "+w"(sums.raw)
        : "w"(codes.raw), "w"(inputs.raw));
    return sums;
  }
#endif
  const hn::RebindToSigned<ByteTag> d8;
  const hn::Repartition<int16_t, ByteTag> d16;
  const hn::Half<decltype(d8)> half;
  const auto left = hn::BitCast(d8, codes), right = hn::BitCast(d8, inputs);
  auto odd = hn::Zero(SumTag());
  sums = hn::ReorderWidenMulAccumulate(SumTag(), hn::PromoteTo(d16, hn::LowerHalf(half, left)),
                                       hn::PromoteTo(d16, hn::LowerHalf(half, right)), sums, odd);
  sums = hn::ReorderWidenMulAccumulate(SumTag(), hn::PromoteTo(d16, hn::UpperHalf(half, left)),
                                       hn::PromoteTo(d16, hn::UpperHalf(half, right)), sums, odd);
  return hn::Add(sums, odd);
#endif
}

// The scale of each lane of part `part` of chunk kChunk.
template <int kGroup, int kChunk>
HWY_INLINE hn::Vec<LaneTag> spread_scales(hn::Vec<LaneTag> scales) {
  constexpr int kGroups = 64 / kGroup, kFirst = kGroups * kChunk, kNext = kGroup == 16 ? 1 : 0;
  constexpr int kThird = kFirst + kGroups / 2;
  HWY_ALIGN static constexpr int32_t kLanes[16] = {
      kFirst, kFirst, kFirst, kFirst, kFirst + kNext, kFirst + kNext, kFirst + kNext, kFirst + kNext,
      kThird, kThird, kThird, kThird, kThird + kNext, kThird + kNext, kThird + kNext, kThird + kNext};
  return hn::TableLookupLanes(scales, hn::SetTableIndices(LaneTag(), kLanes));
}
template <int kGroup, int kChunk>
HWY_INLINE hn::Vec<LaneTag> spread_scales(const float* scales, int part) {
  const LaneTag d;
  scales += 64 / kGroup * kChunk + part * (64 / kGroup) / kParts;
  if constexpr (kPart <= kGroup) return hn::Set(d, scales[0]);
  return hn::IfThenElse(hn::FirstN(d, kPart / 8), hn::Set(d, scales[0]), hn::Set(d, scales[1]));
}

}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();
#endif
