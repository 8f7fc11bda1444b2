#include <algorithm>
#include <bit>

#include "kernels/backends.h"
#include "kernels/base/kv_run.h"
#include "kernels/base/row_registers.cuh"
#include "kernels/linear/rmsnorm.h"

namespace ocellus {
namespace cuda {
namespace {

__device__ float scale_of(float squares, int cols, float epsilon, float* room) {
  return rsqrtf(block_sum(squares, room) / static_cast<float>(cols) + epsilon);
}

/// One block per row, the row in registers. The weight is constant, so it is fetched while the input is being written.
template <class In, class Out, bool kAdd, int kChunks>
__global__ void __launch_bounds__(kMaxRowThreads)
    normalise_rows(const In* input, int64_t input_stride, const float* weight, float epsilon, int cols, Out* output,
                   int64_t output_stride, float sum_scale) {
  __shared__ float room[kWarp];
  RowRegisters<kChunks> x, w;
  if (weight != nullptr)
    w.load(weight, cols);
  else
    for (auto& chunk : w.values)
      for (float& value : chunk) value = 1.0f;
  wait_for_inputs();
  let_next_start();
  x.load(input + blockIdx.x * input_stride, cols);
  float squares = 0;
  x.for_each(cols, [&](int, const float(&group)[4]) {
    for (const float value : group) squares += value * value;
  });
  const float scale = scale_of(squares, cols, epsilon, room);
#pragma unroll
  for (int chunk = 0; chunk < kChunks; ++chunk)
    for (int k = 0; k < 4; ++k) x.values[chunk][k] *= scale * w.values[chunk][k];
  Out* out = output + blockIdx.x * output_stride;
  x.for_each(cols, [&](int col, const float(&group)[4]) {
    if constexpr (kAdd) {
      float sum[4];
      load_values(out + col, sum);
      for (int k = 0; k < 4; ++k) sum[k] = (sum[k] + group[k]) * sum_scale;
      store_values(out + col, sum);
    } else {
      store_values(out + col, group);
    }
  });
}

/// Rows of any length and address.
template <class In, class Out, bool kAdd>
__global__ void normalise_plain_rows(const In* input, int64_t input_stride, const float* weight, float epsilon,
                                     int cols, Out* output, int64_t output_stride, float sum_scale) {
  __shared__ float room[kWarp];
  const In* x = input + blockIdx.x * input_stride;
  Out* out = output + blockIdx.x * output_stride;
  wait_for_inputs();
  let_next_start();
  float squares = 0;
  for (int i = static_cast<int>(threadIdx.x); i < cols; i += kPlainRowThreads) {
    const float value = load_value(x + i);
    squares += value * value;
  }
  const float scale = scale_of(squares, cols, epsilon, room);
  for (int i = static_cast<int>(threadIdx.x); i < cols; i += kPlainRowThreads)
    store_value(out + i, (load_value(x + i) * (weight == nullptr ? scale : scale * weight[i]) +
                          (kAdd ? load_value(out + i) : 0.0f)) *
                             (kAdd ? sum_scale : 1.0f));
}

template <class In, class Out, bool kAdd = false>
void normalise(const RmsNormArgs& args, Queue& queue) {
  const bool wide =
      args.input.cols % 4 == 0 && takes_wide(args.input, 4) && takes_wide(args.weight, 4) && takes_wide(args.output, 4);
  launch_rows<normalise_rows<In, Out, kAdd, 2>, normalise_rows<In, Out, kAdd, 4>, normalise_plain_rows<In, Out, kAdd>>(
      queue, "rmsnorm", args.input, wide, static_cast<const In*>(args.input.data), args.input.stride, args.weight,
      args.epsilon, static_cast<int>(args.input.cols), static_cast<Out*>(args.output.data), args.output.stride,
      args.sum_scale);
}

constexpr int kHeadThreads = 128;
constexpr int kHeadUnit = 8;        // neighbouring channels of a thread
constexpr int kUnitsPerThread = 2;  // at most; a warp takes the longest head
static_assert(kWarp * kHeadUnit * kUnitsPerThread >= kMaxHeadDim);

/// Queries, keys or values; no weight: 1.
struct HeadRows {
  __half* values;
  int64_t stride;
  const float* weight;
  float scale;
  int heads;

  HeadRows(const ActivationView& view, const float* norm_weight, float norm_scale, int head_dim)
      : values(half_data(view)),
        stride(view.stride),
        weight(norm_weight),
        scale(norm_scale),
        heads(static_cast<int>(view.cols / head_dim)) {}
  bool takes_wide_units(const ActivationView& view) const {
    return heads == 0 || (takes_wide(view, kHeadUnit) && takes_wide(weight, 4));
  }
};

template <bool kWide, class T>
__device__ void load_unit(const T* from, float (&to)[kHeadUnit]) {
  if constexpr (kWide) {
    load_values(from, to);
  } else {
    for (int i = 0; i < kHeadUnit; ++i) to[i] = load_value(from + i);
  }
}

/// `lanes` neighbouring threads of one warp, a power of two, share a head.
template <bool kWide>
__global__ void __launch_bounds__(kHeadThreads)
    normalise_head_rows(HeadRows query, HeadRows key, HeadRows value, int64_t row_count, int head_dim, int lanes,
                        float epsilon) {
  const int64_t place = (int64_t{blockIdx.x} * kHeadThreads + threadIdx.x) / lanes;
  const int heads = query.heads + key.heads + value.heads;
  const int64_t row = place / heads;
  int head = static_cast<int>(place - row * heads);
  const int first = static_cast<int>(threadIdx.x) % lanes * kHeadUnit, step = lanes * kHeadUnit;
  HeadRows rows = query;
  if (head >= query.heads) {
    head -= query.heads;
    rows = key;
    if (head >= key.heads) {
      head -= key.heads;
      rows = value;
    }
  }
  const auto live = [&](int unit) { return row < row_count && first + unit * step < head_dim; };
  __half* const at = rows.values + row * rows.stride + head * head_dim + first;
  float w[kUnitsPerThread][kHeadUnit], x[kUnitsPerThread][kHeadUnit] = {};
#pragma unroll
  for (int unit = 0; unit < kUnitsPerThread; ++unit) {
    for (float& weight : w[unit]) weight = 1.0f;
    if (live(unit) && rows.weight != nullptr) load_unit<kWide>(rows.weight + first + unit * step, w[unit]);
  }
  wait_for_inputs();
  let_next_start();
  float squares = 0;
#pragma unroll
  for (int unit = 0; unit < kUnitsPerThread; ++unit) {
    if (live(unit)) load_unit<kWide>(at + unit * step, x[unit]);
    for (const float value : x[unit]) squares += value * value;
  }
  for (int offset = lanes / 2; offset > 0; offset /= 2) squares += __shfl_xor_sync(0xFFFFFFFFu, squares, offset);
  const float scale = rsqrtf(squares / static_cast<float>(head_dim) + epsilon) * rows.scale;
#pragma unroll
  for (int unit = 0; unit < kUnitsPerThread; ++unit) {
    if (!live(unit)) continue;
#pragma unroll
    for (int i = 0; i < kHeadUnit; ++i) x[unit][i] *= scale * w[unit][i];
    if constexpr (kWide) {
      store_values(at + unit * step, x[unit]);
    } else {
      for (int i = 0; i < kHeadUnit; ++i) store_value(at + unit * step + i, x[unit][i]);
    }
  }
}

}  // namespace

void normalise_heads(const NormaliseHeadsArgs& args, Queue& queue) {
  for (const ActivationView& view : {args.query, args.key, args.value})
    if (view.cols > 0 && !is_half(view, "normalise_heads", queue)) return;
  const HeadRows query(args.query, args.query_weight, args.query_scale, args.head_dim),
      key(args.key, args.key_weight, 1.0f, args.head_dim), value(args.value, nullptr, 1.0f, args.head_dim);
  const int lanes = std::min<int>(kWarp, std::bit_ceil(static_cast<unsigned>(args.head_dim / kHeadUnit)));
  const int64_t rows = args.query.cols > 0 ? args.query.rows : args.key.rows;
  const int64_t threads = rows * (query.heads + key.heads + value.heads) * lanes;
  const LaunchShape shape{.grid = static_cast<unsigned>(divide_up(threads, kHeadThreads)), .threads = kHeadThreads};
  if (query.takes_wide_units(args.query) && key.takes_wide_units(args.key) && value.takes_wide_units(args.value))
    launch<normalise_head_rows<true>>(queue, "normalise_heads", shape, query, key, value, rows, args.head_dim, lanes,
                                      args.epsilon);
  else
    launch<normalise_head_rows<false>>(queue, "normalise_heads", shape, query, key, value, rows, args.head_dim, lanes,
                                       args.epsilon);
}

void rmsnorm(const RmsNormArgs& args, Queue& queue) {
  const bool from_half = args.input.type == ActivationType::kF16, to_half = args.output.type == ActivationType::kF16;
  if (args.accumulate && (from_half || to_half))
    queue.fail(OCELLUS_FAIL(Code::kInternal, "rmsnorm: only f32 rows are added to"));
  else if (args.accumulate)
    normalise<float, float, true>(args, queue);
  else if (from_half && to_half)
    normalise<__half, __half>(args, queue);
  else if (to_half)
    normalise<float, __half>(args, queue);
  else if (!from_half)
    normalise<float, float>(args, queue);
  else
    queue.fail(OCELLUS_FAIL(Code::kInternal, "rmsnorm: f16 rows become f16 rows"));
}

}  // namespace cuda
}  // namespace ocellus
