// The product of two rows on vectors; compiled once per Highway target.
#if defined(OCELLUS_KERNELS_DOT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef OCELLUS_KERNELS_DOT_INL_H
#undef OCELLUS_KERNELS_DOT_INL_H
#else
#define OCELLUS_KERNELS_DOT_INL_H
#endif

#include "kernels/base/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {

HWY_INLINE float dot(const float* a, const float* b, int64_t count) {
  const FloatTag d;
  FloatVec sum = hn::Zero(d);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) sum = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum);
  float rest = 0;
  for (; i < count; ++i) rest += a[i] * b[i];
  return hn::GetLane(hn::SumOfLanes(d, sum)) + rest;
}

}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#endif
