#include <bit>

#include "kernels/backends.h"
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
                   int64_t output_stride) {
  __shared__ float room[kWarp];
  RowRegisters<kChunks> x, w;
  w.load(weight, cols);
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
      for (int k = 0; k < 4; ++k) sum[k] += group[k];
      store_values(out + col, sum);
    } else {
      store_values(out + col, group);
    }
  });
}

/// Rows of any length and address.
template <class In, class Out, bool kAdd>
__global__ void normalise_plain_rows(const In* input, int64_t input_stride, const float* weight, float epsilon,
                                     int cols, Out* output, int64_t output_stride) {
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
    store_value(out + i, load_value(x + i) * (scale * weight[i]) + (kAdd ? load_value(out + i) : 0.0f));
}

template <class In, class Out, bool kAdd = false>
void normalise(const RmsNormArgs& args, Queue& queue) {
  const bool wide =
      args.input.cols % 4 == 0 && takes_wide(args.input, 4) && takes_wide(args.weight, 4) && takes_wide(args.output, 4);
  launch_rows<normalise_rows<In, Out, kAdd, 2>, normalise_rows<In, Out, kAdd, 4>, normalise_plain_rows<In, Out, kAdd>>(
      queue, "rmsnorm", args.input, wide, static_cast<const In*>(args.input.data), args.input.stride, args.weight,
      args.epsilon, static_cast<int>(args.input.cols), static_cast<Out*>(args.output.data), args.output.stride);
}

constexpr int kHeadThreads = 128;
constexpr int kHeadUnit = 8;  // channels per thread

/// Queries or keys.
struct HeadRows {
  __half* values;
  int64_t stride;
  const float* weight;
  int heads;

  HeadRows(const ActivationView& view, const float* norm_weight, int head_dim)
      : values(half_data(view)),
        stride(view.stride),
        weight(norm_weight),
        heads(static_cast<int>(view.cols / head_dim)) {}
  bool takes_wide_units(const ActivationView& view) const {
    return takes_wide(view, kHeadUnit) && takes_wide(weight, 4);
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
    normalise_head_rows(HeadRows query, HeadRows key, int64_t row_count, int head_dim, int lanes, float epsilon) {
  const int64_t place = (int64_t{blockIdx.x} * kHeadThreads + threadIdx.x) / lanes;
  const int64_t row = place / (query.heads + key.heads);
  const int head = static_cast<int>(place - row * (query.heads + key.heads));
  const int channel = static_cast<int>(threadIdx.x) % lanes * kHeadUnit;
  const bool is_query = head < query.heads;
  const bool live = row < row_count && channel < head_dim;
  __half* const at = (is_query ? query.values + row * query.stride + head * head_dim
                               : key.values + row * key.stride + (head - query.heads) * head_dim) +
                     channel;
  float w[kHeadUnit] = {}, x[kHeadUnit] = {};
  if (live) load_unit<kWide>((is_query ? query.weight : key.weight) + channel, w);
  wait_for_inputs();
  let_next_start();
  if (live) load_unit<kWide>(at, x);
  float squares = 0;
  for (const float value : x) squares += value * value;
  for (int offset = lanes / 2; offset > 0; offset /= 2) squares += __shfl_xor_sync(0xFFFFFFFFu, squares, offset);
  if (!live) return;
  const float scale = rsqrtf(squares / static_cast<float>(head_dim) + epsilon);
#pragma unroll
  for (int i = 0; i < kHeadUnit; ++i) x[i] *= scale * w[i];
  if constexpr (kWide) {
    store_values(at, x);
  } else {
    for (int i = 0; i < kHeadUnit; ++i) store_value(at + i, x[i]);
  }
}

}  // namespace

void normalise_heads(const NormaliseHeadsArgs& args, Queue& queue) {
  if (!is_half(args.query, "normalise_heads", queue) || !is_half(args.key, "normalise_heads", queue)) return;
  const HeadRows query(args.query, args.query_weight, args.head_dim), key(args.key, args.key_weight, args.head_dim);
  const int lanes = static_cast<int>(std::bit_ceil(static_cast<unsigned>(args.head_dim / kHeadUnit)));
  const int64_t threads = args.query.rows * (query.heads + key.heads) * lanes;
  const LaunchShape shape{.grid = static_cast<unsigned>(divide_up(threads, kHeadThreads)), .threads = kHeadThreads};
  if (query.takes_wide_units(args.query) && key.takes_wide_units(args.key))
    launch<normalise_head_rows<true>>(queue, "normalise_heads", shape, query, key, args.query.rows, args.head_dim,
                                      lanes, args.epsilon);
  else
    launch<normalise_head_rows<false>>(queue, "normalise_heads", shape, query, key, args.query.rows, args.head_dim,
                                       lanes, args.epsilon);
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
