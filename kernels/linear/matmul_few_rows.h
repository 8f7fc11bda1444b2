// Matrix products of few rows on CUDA, as in decoding: limited by reading every weight once, at the speed of the
// memory. Called by the public ops matmul, norm_matmul and gated_matmul; their headers state the arithmetic.
#pragma once

#include "kernels/linear/few_rows/plan.h"
#include "kernels/linear/matmul.h"

namespace ocellus::cuda {

/// n W_i^T, where n is the input or, with `norm_weight`, the input after rmsnorm; then bias and activation, and with
/// `accumulate` added to the outputs. `gated` (count 2): outputs[0] = activation(n W_0^T + b_0) * (n W_1^T + b_1).
struct FewRowsArgs {
  ActivationView input;
  const float* norm_weight = nullptr;
  float epsilon = 0;
  int count = 1;
  WeightView weights[3];
  const float* biases[3] = {};
  ActivationView outputs[3];
  bool accumulate = false;
  bool gated = false;
  Activation activation = Activation::kNone;
  DeviceView<std::byte> scratch;
};

/// True if multiply_few_rows should be used for this many rows and these matrices. Lean and batch-invariant: also where
/// cuBLASLt would be faster, because it needs scratch and sums by the number of rows.
bool few_rows_fits(int64_t rows, const WeightView* weights, int count, bool gated, const DeviceTraits& device);

/// Name of the plan, for benchmarks.
const char* few_rows_plan_name(int64_t rows, const WeightView& weights, const CudaFacts& device);

/// Requires few_rows_fits. Batch-invariant: eight rows at a time, all by FewRowsPlan::kTiles. kInternal in the queue if
/// scratch is less than few_rows_scratch_bytes or not aligned to 64.
void multiply_few_rows(const FewRowsArgs& args, Queue& queue);

}  // namespace ocellus::cuda
