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

/// Writes n w, or (out + n w) sum_scale; n is the normalised row, w the weight or 1.
struct RowNorm {
  const float* weight;
  float epsilon;
  bool accumulate;
  float scale;  // multiplies the product, or the sum
};

void normalise_row(const RowNorm& norm, const float* x, int64_t cols, float* out) {
  const FloatTag d;
  FloatVec squares = hn::Zero(d);
  for (int64_t i = 0; i < cols; i += kLanes) {
    const FloatVec v = load_part(d, x + i, cols - i);
    squares = hn::MulAdd(v, v, squares);
  }
  const float mean = hn::GetLane(hn::SumOfLanes(d, squares)) / static_cast<float>(cols);
  const FloatVec scale = hn::Set(d, 1.0f / std::sqrt(mean + norm.epsilon)), last = hn::Set(d, norm.scale);
  for (int64_t i = 0; i < cols; i += kLanes) {
    const FloatVec v = hn::Mul(load_part(d, x + i, cols - i), scale);
    const FloatVec w = norm.weight == nullptr ? hn::Set(d, 1.0f) : load_part(d, norm.weight + i, cols - i);
    const FloatVec normed = norm.accumulate ? hn::MulAdd(v, w, load_part(d, out + i, cols - i)) : hn::Mul(v, w);
    store_part(hn::Mul(normed, last), d, out + i, cols - i);
  }
}

void rmsnorm_rows(const RmsNormArgs& args, int64_t begin, int64_t end) {
  const RowNorm norm{args.weight, args.epsilon, args.accumulate, args.accumulate ? args.sum_scale : 1.0f};
  for (int64_t t = begin; t < end; ++t) normalise_row(norm, args.input.row(t), args.input.cols, args.output.row(t));
}

void normalise_heads_of(const ActivationView& values, const RowNorm& norm, int32_t head_dim, int64_t t) {
  if (values.cols == 0) return;
  float* const row = values.row(t);
  for (int64_t first = 0; first < values.cols; first += head_dim)
    normalise_row(norm, row + first, head_dim, row + first);
}

void normalise_head_rows(const NormaliseHeadsArgs& args, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    normalise_heads_of(args.query, {args.query_weight, args.epsilon, false, args.query_scale}, args.head_dim, t);
    normalise_heads_of(args.key, {args.key_weight, args.epsilon, false, 1.0f}, args.head_dim, t);
    normalise_heads_of(args.value, {nullptr, args.epsilon, false, 1.0f}, args.head_dim, t);
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
  const int64_t cols = args.query.cols + args.key.cols + args.value.cols;
  const int64_t rows = args.query.cols > 0 ? args.query.rows : args.key.rows;
  queue.parallel(rows, rows_per_piece(cols, 32768), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(normalise_head_rows)(args, begin, end);
  });
}

}  // namespace ocellus
#endif  // HWY_ONCE
