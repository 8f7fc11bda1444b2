#include "kernels/backends.h"
#include "kernels/base/row_registers.cuh"
#include "kernels/linear/rmsnorm.h"

namespace ocellus {
namespace cuda {
namespace {

__device__ float scale_of(float squares, int cols, float epsilon, float* room) {
  return rsqrtf(block_sum(squares, room) / static_cast<float>(cols) + epsilon);
}

/// One block a row, the row in registers. The weight never changes, so it is fetched while the input is being written.
template <class Out, int kChunks>
__global__ void __launch_bounds__(kMostRowThreads)
    normalise_rows(const float* input, int64_t input_stride, const float* weight, float epsilon, int cols, Out* output,
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
  x.for_each(cols, [&](int col, const float(&group)[4]) { store_values(out + col, group); });
}

/// Rows of any length and address.
template <class Out>
__global__ void normalise_plain_rows(const float* input, int64_t input_stride, const float* weight, float epsilon,
                                     int cols, Out* output, int64_t output_stride) {
  __shared__ float room[kWarp];
  const float* x = input + blockIdx.x * input_stride;
  Out* out = output + blockIdx.x * output_stride;
  wait_for_inputs();
  let_next_start();
  float squares = 0;
  for (int i = static_cast<int>(threadIdx.x); i < cols; i += kPlainRowThreads) squares += x[i] * x[i];
  const float scale = scale_of(squares, cols, epsilon, room);
  for (int i = static_cast<int>(threadIdx.x); i < cols; i += kPlainRowThreads)
    store_value(out + i, x[i] * (scale * weight[i]));
}

template <class Out>
void normalise(const RmsNormArgs& args, Queue& queue) {
  const bool wide =
      args.input.cols % 4 == 0 && takes_wide(args.input, 4) && takes_wide(args.weight, 4) && takes_wide(args.output, 4);
  launch_rows<normalise_rows<Out, 2>, normalise_rows<Out, 4>, normalise_plain_rows<Out>>(
      queue, "rmsnorm", args.input, wide, args.input.data, args.input.stride, args.weight, args.epsilon,
      static_cast<int>(args.input.cols), static_cast<Out*>(args.output.data), args.output.stride);
}

}  // namespace

void rmsnorm(const RmsNormArgs& args, Queue& queue) {
  if (args.output.type == ActivationType::kF16)
    normalise<__half>(args, queue);
  else
    normalise<float>(args, queue);
}

}  // namespace cuda
}  // namespace ocellus
