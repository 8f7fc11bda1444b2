// Vector helpers shared by the CPU kernels; compiled once per Highway target.
#if defined(OCELLUS_KERNELS_VECTORS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef OCELLUS_KERNELS_VECTORS_INL_H
#undef OCELLUS_KERNELS_VECTORS_INL_H
#else
#define OCELLUS_KERNELS_VECTORS_INL_H
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "platform/views.h"
#include "quant/weight_format.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// The widest float vector of the target, and one of at most eight lanes for rows whose length is only a multiple of 8.
using FloatTag = hn::CappedTag<float, 16>;
using EightTag = hn::CappedTag<float, 8>;
using FloatVec = hn::Vec<FloatTag>;

inline constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(FloatTag()));

/// True if the processor converts between half and float; otherwise Highway truncates, and we round ourselves.
#undef OCELLUS_HALF_CONVERSIONS
#if HWY_ARCH_ARM || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
#define OCELLUS_HALF_CONVERSIONS 1
#else
#define OCELLUS_HALF_CONVERSIONS 0
#endif

inline constexpr float kLargestHalf = 65504.0f;

/// Loads the first `count` values of `from`, then zeros. For the ends of rows, where a whole vector would read past
/// them.
HWY_INLINE FloatVec load_first(FloatTag d, const float* from, int64_t count) {
  HWY_ALIGN float lanes[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i] = from[i];
  return hn::Load(d, lanes);
}

HWY_INLINE void store_first(FloatVec v, FloatTag d, float* to, int64_t count) {
  HWY_ALIGN float lanes[kLanes];
  hn::Store(v, d, lanes);
  for (int64_t i = 0; i < count; ++i) to[i] = lanes[i];
}

/// One vector of a row that has `count` values left: plain loads and stores except at the row's end.
HWY_INLINE FloatVec load_part(FloatTag d, const float* from, int64_t count) {
  return count >= kLanes ? hn::LoadU(d, from) : load_first(d, from, count);
}

HWY_INLINE void store_part(FloatVec v, FloatTag d, float* to, int64_t count) {
  if (count >= kLanes) {
    hn::StoreU(v, d, to);
  } else {
    store_first(v, d, to, count);
  }
}

template <class D>
HWY_INLINE hn::Vec<D> load_halves(D d, const Half* from) {
  const hn::Rebind<hwy::float16_t, D> halves;
  return hn::PromoteTo(d, hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(from)));
}

/// to[i] = from[i], for a count divisible by 8.
HWY_INLINE void expand_halves(const Half* from, int64_t count, float* to) {
  const FloatTag d;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(load_halves(d, from + i), d, to + i);
  const EightTag eight;
  for (; i < count; i += static_cast<int64_t>(hn::Lanes(eight))) {
    hn::StoreU(load_halves(eight, from + i), eight, to + i);
  }
}

HWY_INLINE Half round_to_half(float value) {
  return float_to_half(value > kLargestHalf ? kLargestHalf : value < -kLargestHalf ? -kLargestHalf : value);
}

/// to[i] = from[i] rounded to nearest even; magnitudes too large for a half become the largest one, NaN stays NaN (a
/// vector's Min and Max do not propagate it on every processor).
HWY_INLINE void round_to_halves(const float* from, int64_t count, Half* to) {
  int64_t i = 0;
#if OCELLUS_HALF_CONVERSIONS
  const FloatTag d;
  const hn::Rebind<hwy::float16_t, FloatTag> halves;
  const FloatVec most = hn::Set(d, kLargestHalf), least = hn::Neg(most);
  for (; i + kLanes <= count; i += kLanes) {
    FloatVec v = hn::LoadU(d, from + i);
    v = hn::IfThenElse(hn::Gt(v, most), most, v);
    v = hn::IfThenElse(hn::Lt(v, least), least, v);
    hn::StoreU(hn::DemoteTo(halves, v), halves, reinterpret_cast<hwy::float16_t*>(to + i));
  }
#endif
  for (; i < count; ++i) to[i] = round_to_half(from[i]);
}

/// Updates every column's minimum and maximum with `rows` rows of scores.
HWY_INLINE void widen_ends(const float* scores, int64_t rows, int64_t columns, float* least, float* greatest) {
  const FloatTag d;
  for (int64_t column = 0; column < columns; column += kLanes) {
    FloatVec low = hn::LoadU(d, least + column), high = hn::LoadU(d, greatest + column);
    for (int64_t i = 0; i < rows; ++i) {
      const FloatVec score = hn::LoadU(d, scores + i * columns + column);
      low = hn::Min(low, score);
      high = hn::Max(high, score);
    }
    hn::StoreU(low, d, least + column);
    hn::StoreU(high, d, greatest + column);
  }
}

/// 2^fraction * 2^n for fraction in [-1/2, 1/2], where the low mantissa bits of `shifted` hold the integer n. The
/// polynomial is the best one of degree 5 in relative error (1.1e-7) that is exact at 0.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V scale_exp2(D d, V fraction, V shifted) {
  const hn::RebindToUnsigned<D> bits;
  V p = hn::Set(d, 0x1.5bba14p-10f);
  p = hn::MulAdd(p, fraction, hn::Set(d, 0x1.3cea88p-7f));
  p = hn::MulAdd(p, fraction, hn::Set(d, 0x1.c6b752p-5f));
  p = hn::MulAdd(p, fraction, hn::Set(d, 0x1.ebf9bcp-3f));
  p = hn::MulAdd(p, fraction, hn::Set(d, 0x1.62e42ap-1f));
  p = hn::MulAdd(p, fraction, hn::Set(d, 1.0f));
  return hn::BitCast(d, hn::Add(hn::BitCast(bits, p), hn::ShiftLeft<23>(hn::BitCast(bits, shifted))));
}

/// Adding this to a float of magnitude below 2^22 leaves the nearest integer in the low mantissa bits.
inline constexpr float kRounder = 0x1.8p23f;

/// 2^x for x <= 0, within 2e-7 of the value; 0 for x below -125, minus infinity included; NaN for NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp2_of_negative(D d, V x) {
  const V rounder = hn::Set(d, kRounder);
  const V shifted = hn::Add(x, rounder);
  const V fraction = hn::Sub(x, hn::Sub(shifted, rounder));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -125.0f)), scale_exp2(d, fraction, shifted));
}

/// e^x, within 4e-7 of the value; 0 for x below -86, constant above 88.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_of(D d, V x) {
  const V log2_e = hn::Set(d, 0x1.715476p+0f);
  const V log2_e_rest = hn::Set(d, 0x1.4ae0c0p-26f);
  const V rounder = hn::Set(d, kRounder);
  x = hn::Min(x, hn::Set(d, 88.0f));
  const V shifted = hn::MulAdd(x, log2_e, rounder);
  const V whole = hn::Sub(shifted, rounder);
  const V fraction = hn::MulAdd(x, log2_e_rest, hn::MulSub(x, log2_e, whole));
  return hn::IfThenElseZero(hn::Ge(x, hn::Set(d, -86.0f)), scale_exp2(d, fraction, shifted));
}

}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#endif  // OCELLUS_KERNELS_VECTORS_INL_H
