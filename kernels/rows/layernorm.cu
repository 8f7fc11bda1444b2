#include "kernels/backends.h"
#include "kernels/base/row_registers.cuh"
#include "kernels/rows/layernorm.h"

namespace ocellus {
namespace cuda {
namespace {

/// Inputs of both kernels; only the rows are written by earlier ones.
struct Norm {
  const float* input;
  int64_t input_stride;
  const float* weight;
  const float* bias;
  float epsilon;
  int cols;

  __device__ float mean_of(float sum, float* room) const { return block_sum(sum, room) / static_cast<float>(cols); }
  __device__ float scale_of(float squares, float* room) const { return rsqrtf(mean_of(squares, room) + epsilon); }
};

/// One block per row, the row in registers. Weight and bias are constant, so they are fetched while the input is being
/// written.
template <class Out, int kChunks>
__global__ void __launch_bounds__(kMaxRowThreads) normalise_rows(Norm norm, Out* output, int64_t output_stride) {
  __shared__ float rooms[2][kWarp];
  const int cols = norm.cols;
  RowRegisters<kChunks> x, w, b;
  w.load(norm.weight, cols);
  b.load(norm.bias, cols);
  wait_for_inputs();
  let_next_start();
  x.load(norm.input + blockIdx.x * norm.input_stride, cols);
  float sum = 0;
  x.for_each(cols, [&](int, const float(&group)[4]) {
    for (const float value : group) sum += value;
  });
  const float mean = norm.mean_of(sum, rooms[0]);
  float squares = 0;
  x.for_each(cols, [&](int, const float(&group)[4]) {
    for (const float value : group) squares += (value - mean) * (value - mean);
  });
  const float scale = norm.scale_of(squares, rooms[1]);
#pragma unroll
  for (int chunk = 0; chunk < kChunks; ++chunk)
    for (int k = 0; k < 4; ++k)
      x.values[chunk][k] = (x.values[chunk][k] - mean) * scale * w.values[chunk][k] + b.values[chunk][k];
  Out* out = output + blockIdx.x * output_stride;
  x.for_each(cols, [&](int col, const float(&group)[4]) { store_values(out + col, group); });
}

/// Rows of any length and address.
template <class Out>
__global__ void normalise_plain_rows(Norm norm, Out* output, int64_t output_stride) {
  __shared__ float rooms[2][kWarp];
  const int cols = norm.cols;
  const int first = static_cast<int>(threadIdx.x);
  const float* x = norm.input + blockIdx.x * norm.input_stride;
  Out* out = output + blockIdx.x * output_stride;
  wait_for_inputs();
  let_next_start();
  float sum = 0;
  for (int i = first; i < cols; i += kPlainRowThreads) sum += x[i];
  const float mean = norm.mean_of(sum, rooms[0]);
  float squares = 0;
  for (int i = first; i < cols; i += kPlainRowThreads) squares += (x[i] - mean) * (x[i] - mean);
  const float scale = norm.scale_of(squares, rooms[1]);
  for (int i = first; i < cols; i += kPlainRowThreads)
    store_value(out + i, (x[i] - mean) * scale * norm.weight[i] + norm.bias[i]);
}

template <class Out>
void normalise(const LayerNormArgs& args, Queue& queue) {
  const bool wide = args.input.cols % 4 == 0 && takes_wide(args.input, 4) && takes_wide(args.weight, 4) &&
                    takes_wide(args.bias, 4) && takes_wide(args.output, 4);
  const Norm norm{args.input.data, args.input.stride, args.weight,
                  args.bias,       args.epsilon,      static_cast<int>(args.input.cols)};
  launch_rows<normalise_rows<Out, 2>, normalise_rows<Out, 4>, normalise_plain_rows<Out>>(
      queue, "layernorm", args.input, wide, norm, static_cast<Out*>(args.output.data), args.output.stride);
}

}  // namespace

void layernorm(const LayerNormArgs& args, Queue& queue) {
  if (args.output.type == ActivationType::kF16)
    normalise<__half>(args, queue);
  else
    normalise<float>(args, queue);
}

}  // namespace cuda
}  // namespace ocellus
