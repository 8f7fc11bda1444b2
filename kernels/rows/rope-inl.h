// Rotation of heads by rotary positions; compiled once per Highway target.
#if defined(OCELLUS_KERNELS_ROPE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef OCELLUS_KERNELS_ROPE_INL_H
#undef OCELLUS_KERNELS_ROPE_INL_H
#else
#define OCELLUS_KERNELS_ROPE_INL_H
#endif

#include "hwy/highway.h"
#include "kernels/base/vectors-inl.h"
#include "kernels/rows/rope.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {

/// Rotates one pair (a, b) by the angle with this cosine and sine.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void turn(V cosine, V sine, V& a, V& b) {
  const V turned = hn::NegMulAdd(b, sine, hn::Mul(a, cosine));
  b = hn::MulAdd(b, cosine, hn::Mul(a, sine));
  a = turned;
}

/// Rotates pairs from `pair` on, as many as fill whole vectors of D; returns the first remaining pair.
template <class D>
HWY_INLINE int64_t rotate_pairs(D d, RopePairing pairing, int64_t pair, int64_t pairs, const float* angles, float* x) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; pair + lanes <= pairs; pair += lanes) {
    hn::Vec<D> cosine, sine, a, b;
    hn::LoadInterleaved2(d, angles + 2 * pair, cosine, sine);
    if (pairing == RopePairing::kAdjacent) {
      hn::LoadInterleaved2(d, x + 2 * pair, a, b);
      turn<D>(cosine, sine, a, b);
      hn::StoreInterleaved2(a, b, d, x + 2 * pair);
    } else {
      a = hn::LoadU(d, x + pair);
      b = hn::LoadU(d, x + pairs + pair);
      turn<D>(cosine, sine, a, b);
      hn::StoreU(a, d, x + pair);
      hn::StoreU(b, d, x + pairs + pair);
    }
  }
  return pair;
}

HWY_INLINE void rotate_all_pairs(RopePairing pairing, int64_t pairs, const float* angles, float* x) {
  const int64_t left = rotate_pairs(FloatTag(), pairing, 0, pairs, angles, x);
  rotate_pairs(hn::CappedTag<float, 1>(), pairing, left, pairs, angles, x);
}

/// Rotates one head; angles [rotated].
HWY_INLINE void rotate_head(const RopeParams& params, const float* angles, float* x) {
  const int64_t pairs = params.rotated / 2;
  if (params.pairing != RopePairing::kQuarters) return rotate_all_pairs(params.pairing, pairs, angles, x);
  rotate_all_pairs(RopePairing::kHalves, pairs / 2, angles, x);
  rotate_all_pairs(RopePairing::kHalves, pairs / 2, angles + pairs, x + pairs);
}

}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#endif  // OCELLUS_KERNELS_ROPE_INL_H
