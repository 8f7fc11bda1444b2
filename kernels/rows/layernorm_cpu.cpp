#include <cmath>

#include "kernels/backends.h"
#include "kernels/base/highway_targets.h"
#include "kernels/base/row_pieces.h"
#include "kernels/rows/layernorm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rows/layernorm_cpu.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/base/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace {

float mean_of(const float* x, int64_t cols) {
  const FloatTag d;
  FloatVec sum = hn::Zero(d);
  for (int64_t i = 0; i < cols; i += kLanes) sum = hn::Add(sum, load_part(d, x + i, cols - i));
  return hn::GetLane(hn::SumOfLanes(d, sum)) / static_cast<float>(cols);
}

float variance_of(const float* x, float mean, int64_t cols) {
  const FloatTag d;
  const FloatVec middle = hn::Set(d, mean);
  FloatVec squares = hn::Zero(d);
  int64_t i = 0;
  for (; i + kLanes <= cols; i += kLanes) {
    const FloatVec v = hn::Sub(hn::LoadU(d, x + i), middle);
    squares = hn::MulAdd(v, v, squares);
  }
  // The lanes after the row's end must not count as (0 - mean)^2, so the rest is summed one by one.
  float sum = hn::GetLane(hn::SumOfLanes(d, squares));
  for (; i < cols; ++i) sum += (x[i] - mean) * (x[i] - mean);
  return sum / static_cast<float>(cols);
}

void layernorm_rows(const LayerNormArgs& args, int64_t begin, int64_t end) {
  const FloatTag d;
  const int64_t cols = args.input.cols;
  for (int64_t t = begin; t < end; ++t) {
    const float* x = args.input.row(t);
    float* out = args.output.row(t);
    const float mean = mean_of(x, cols);
    const FloatVec middle = hn::Set(d, mean);
    const FloatVec scale = hn::Set(d, 1.0f / std::sqrt(variance_of(x, mean, cols) + args.epsilon));
    for (int64_t i = 0; i < cols; i += kLanes) {
      const int64_t left = cols - i;
      const FloatVec v = hn::Mul(hn::Sub(load_part(d, x + i, left), middle), scale);
      const FloatVec bias = load_part(d, args.bias + i, left);
      store_part(hn::MulAdd(v, load_part(d, args.weight + i, left), bias), d, out + i, left);
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ocellus {

HWY_EXPORT(layernorm_rows);

void cpu::layernorm(const LayerNormArgs& args, Queue& queue) {
  queue.parallel(args.input.rows, rows_per_piece(args.input.cols, 32768), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(layernorm_rows)(args, begin, end);
  });
}

}  // namespace ocellus
#endif  // HWY_ONCE
