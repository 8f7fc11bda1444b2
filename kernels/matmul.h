#pragma once

#include "platform/queue.h"
#include "platform/views.h"
#include "quant/weight_format.h"

namespace ocellus {

/// out_i = x W_i^T + bias_i, for up to three weight matrices that share the input (query, key and value; gate and up).
///
/// Shapes      x [T, K]; W_i [N_i, K] in a file format; bias_i [N_i] or null; out_i [T, N_i]
/// Types       x, bias, out f32. F32/F16/BF16 weights: products and sums in f32. Block formats: x is rounded to int8
///             with one f32 scale per 32 inputs, products exact in int32 per group, scaled sums in f32.
/// Divisible   K by the block size of the format, and by 32 for block formats; T, N any >= 1
/// Aliasing    outputs must not overlap the input or each other; `accumulate` adds into the outputs (residual stream)
/// Scratch     matmul_scratch_bytes(T, K, threads), aligned to 64
/// Determinism same inputs give the same bits, whatever the number of threads
/// Errors      kInternal in the queue if scratch is too small or not aligned
struct MatmulArgs {
  DeviceView<const float> input;
  int count = 1;
  WeightView weights[3];
  const float* biases[3] = {};
  DeviceView<float> outputs[3];
  bool accumulate = false;
  DeviceView<std::byte> scratch;
};

/// Largest scratch any call with at most `rows` rows and inner dimension at most `cols` needs.
int64_t matmul_scratch_bytes(int64_t rows, int64_t cols, int thread_count);

void matmul(const MatmulArgs& args, Queue& queue);

}  // namespace ocellus
