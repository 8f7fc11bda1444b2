#include <cmath>

#include "kernels/backends.h"
#include "kernels/highway_targets.h"
#include "kernels/rope.h"
#include "kernels/row_pieces.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rope_cpu.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace {

/// One pair (a, b) turned by the angle with this cosine and sine.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void turn(V cosine, V sine, V& a, V& b) {
  const V turned = hn::NegMulAdd(b, sine, hn::Mul(a, cosine));
  b = hn::MulAdd(b, cosine, hn::Mul(a, sine));
  a = turned;
}

/// Rotates pairs from `pair` on, as many as fill whole vectors of D; returns the first pair left.
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

void rotate_rows(const RotateArgs& args, int64_t begin, int64_t end) {
  const int64_t pairs = args.params.rotated / 2;
  const RopePairing pairing = args.params.pairing;
  for (int64_t t = begin; t < end; ++t) {
    const float* angles = args.angles.row(t);
    for (int64_t first = 0; first + args.head_dim <= args.values.cols; first += args.head_dim) {
      float* x = args.values.row(t) + first;
      const int64_t left = rotate_pairs(FloatTag(), pairing, 0, pairs, angles, x);
      rotate_pairs(hn::CappedTag<float, 1>(), pairing, left, pairs, angles, x);
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ocellus {
namespace {

/// Angles of rows [begin, end). Pairs outside: the power is computed once for all rows.
void fill_angles(const RopeAnglesArgs& args, int64_t begin, int64_t end) {
  const RopeParams& params = args.params;
  const double octaves_per_pair = -2.0 * std::log2(static_cast<double>(params.base)) / params.rotated;
  for (int64_t i = 0; i < params.rotated / 2; ++i) {
    double step = std::exp2(octaves_per_pair * static_cast<double>(i)) * static_cast<double>(params.position_scale);
    if (params.factors != nullptr) step /= static_cast<double>(params.factors[i]);
    for (int64_t t = begin; t < end; ++t) {
      const double angle = args.positions[t * args.position_stride] * step;
      float* out = args.angles.row(t) + 2 * i;
      out[0] = static_cast<float>(std::cos(angle));
      out[1] = static_cast<float>(std::sin(angle));
    }
  }
}

}  // namespace

HWY_EXPORT(rotate_rows);

void cpu::rope_angles(const RopeAnglesArgs& args, Queue& queue) {
  queue.parallel(args.count, rows_per_piece(args.params.rotated, 1024),
                 [&](int64_t begin, int64_t end, int) { fill_angles(args, begin, end); });
}

void cpu::rotate(const RotateArgs& args, Queue& queue) {
  queue.parallel(args.values.rows, rows_per_piece(args.values.cols, 16384), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(rotate_rows)(args, begin, end);
  });
}

}  // namespace ocellus
#endif  // HWY_ONCE
