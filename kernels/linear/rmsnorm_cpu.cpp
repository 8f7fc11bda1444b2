#include <cmath>

#include "kernels/backends.h"
#include "kernels/base/highway_targets.h"
#include "kernels/base/row_pieces.h"
#include "kernels/linear/rmsnorm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/rmsnorm_cpu.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/base/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace {

void normalise_row(const float* x, const float* weight, float epsilon, int64_t cols, bool accumulate, float* out) {
  const FloatTag d;
  FloatVec squares = hn::Zero(d);
  for (int64_t i = 0; i < cols; i += kLanes) {
    const FloatVec v = load_part(d, x + i, cols - i);
    squares = hn::MulAdd(v, v, squares);
  }
  const float mean = hn::GetLane(hn::SumOfLanes(d, squares)) / static_cast<float>(cols);
  const FloatVec scale = hn::Set(d, 1.0f / std::sqrt(mean + epsilon));
  for (int64_t i = 0; i < cols; i += kLanes) {
    const FloatVec v = hn::Mul(load_part(d, x + i, cols - i), scale);
    const FloatVec w = load_part(d, weight + i, cols - i);
    const FloatVec normed = accumulate ? hn::MulAdd(v, w, load_part(d, out + i, cols - i)) : hn::Mul(v, w);
    store_part(normed, d, out + i, cols - i);
  }
}

void rmsnorm_rows(const RmsNormArgs& args, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    normalise_row(args.input.row(t), args.weight, args.epsilon, args.input.cols, args.accumulate, args.output.row(t));
  }
}

void normalise_heads_of(const ActivationView& values, const float* weight, const NormaliseHeadsArgs& args, int64_t t) {
  float* const row = values.row(t);
  for (int64_t first = 0; first < values.cols; first += args.head_dim)
    normalise_row(row + first, weight, args.epsilon, args.head_dim, false, row + first);
}

void normalise_head_rows(const NormaliseHeadsArgs& args, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    normalise_heads_of(args.query, args.query_weight, args, t);
    normalise_heads_of(args.key, args.key_weight, args, t);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ocellus {

HWY_EXPORT(rmsnorm_rows);
HWY_EXPORT(normalise_head_rows);

void cpu::rmsnorm(const RmsNormArgs& args, Queue& queue) {
  queue.parallel(args.input.rows, rows_per_piece(args.input.cols, 32768), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(rmsnorm_rows)(args, begin, end);
  });
}

void cpu::normalise_heads(const NormaliseHeadsArgs& args, Queue& queue) {
  const int64_t cols = args.query.cols + args.key.cols;
  queue.parallel(args.query.rows, rows_per_piece(cols, 32768), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(normalise_head_rows)(args, begin, end);
  });
}

}  // namespace ocellus
#endif  // HWY_ONCE
