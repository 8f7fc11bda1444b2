// attend_one's sums over packed values that have scales by token (KIVI). Compiled once per Highway target.
#if defined(OCELLUS_KERNELS_ATTEND_ONE_TOKEN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef OCELLUS_KERNELS_ATTEND_ONE_TOKEN_INL_H
#undef OCELLUS_KERNELS_ATTEND_ONE_TOKEN_INL_H
#else
#define OCELLUS_KERNELS_ATTEND_ONE_TOKEN_INL_H
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/attention/attend_one.h"
#include "kernels/base/kv_rows-inl.h"
#include "kernels/base/scale_row-inl.h"
#include "kernels/base/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {

/// mixed[h][..] += sum over slots of weights[h][i] * values[slot + i]. Every value is expanded once, for all heads.
template <int kHeads>
HWY_NOINLINE void mix_codes_by_token(const PackedRows& rows, int64_t slot, int64_t count, const float* weights,
                                     int64_t dim, float* mixed, int64_t mixed_stride) {
  const EightTag d;
  HWY_ALIGN float value[kMaxHeadDim];
  ValueScales scales(rows);
  for (int64_t i = 0; i < count; ++i) {
    scales.turn_to(slot + i);
    expand_codes(rows.values, slot + i, scales.offsets(), scales.steps(), dim, value);
    for (int h = 0; h < kHeads; ++h) {
      const auto weight = hn::Set(d, weights[h * kAttendScoreRow + i]);
      float* const sums = mixed + h * mixed_stride;
      for (int64_t e = 0; e < dim; e += static_cast<int64_t>(hn::Lanes(d)))
        hn::StoreU(hn::MulAdd(weight, hn::Load(d, value + e), hn::LoadU(d, sums + e)), d, sums + e);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#endif  // OCELLUS_KERNELS_ATTEND_ONE_TOKEN_INL_H
