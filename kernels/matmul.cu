// The router of matrix products: few rows are a matter of reading weights (matmul_few_rows), many rows one of
// arithmetic, which cuBLASLt does on f16. What is no f16 yet is rounded or decoded into scratch part by part.
#include "kernels/backends.h"
#include "kernels/decode_weights.cuh"
#include "kernels/elementwise.h"
#include "kernels/launch.cuh"
#include "kernels/library_product.cuh"
#include "kernels/matmul.h"
#include "kernels/matmul_few_rows.h"
#include "kernels/matmul_scratch.h"
#include "kernels/row_access.cuh"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kAlignment = 16;

bool is_aligned(const void* address) { return reinterpret_cast<uintptr_t>(address) % kAlignment == 0; }

/// Rows as packed f16, eight values a thread.
template <class Value>
__global__ void round_rows(const Value* input, int64_t stride, uint32_t eights, uint32_t eights_per_row, bool wide,
                           __half* out) {
  wait_for_inputs();
  let_next_start();
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= eights) return;
  const Value* from = input + i / eights_per_row * stride + 8 * (i % eights_per_row);
  float values[8];
  if (wide) {
    load_values<8>(from, values);
  } else {
#pragma unroll
    for (int k = 0; k < 8; ++k) values[k] = load_value(from + k);
  }
  store_values<8>(out + int64_t{8} * i, values);
}

struct BiasCopies {
  const float* from[kMostMatrices] = {};  // null: nothing to copy
  void* to[kMostMatrices] = {};
  int64_t count[kMostMatrices] = {};
  bool as_half[kMostMatrices] = {};
};

/// One row of blocks a matrix.
__global__ void copy_biases(const BiasCopies copies) {
  wait_for_inputs();
  let_next_start();
  const unsigned matrix = blockIdx.y;
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (copies.from[matrix] == nullptr || i >= copies.count[matrix]) return;
  const float bias = copies.from[matrix][i];
  if (copies.as_half[matrix])
    store_value(static_cast<__half*>(copies.to[matrix]) + i, bias);
  else
    store_value(static_cast<float*>(copies.to[matrix]) + i, bias);
}

template <class Value>
__global__ void add_bias(Value* out, int64_t stride, int64_t rows, int64_t cols, const float* bias) {
  wait_for_inputs();
  let_next_start();
  const int64_t n = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (n >= cols) return;
  const float addend = bias[n];
  for (int64_t t = blockIdx.y; t < rows; t += gridDim.y)
    store_value(out + t * stride + n, load_value(out + t * stride + n) + addend);
}

/// Places in the scratch of a call.
struct Scratch {
  explicit Scratch(const MatmulArgs& args, int64_t outputs) {
    const auto address = reinterpret_cast<uintptr_t>(args.scratch.data);
    workspace = args.scratch.data + (kScratchUnit - static_cast<int64_t>(address % kScratchUnit)) % kScratchUnit;
    workspace_bytes = library_workspace_bytes(args.input.rows, outputs);
    std::byte* at = workspace + workspace_bytes;
    for (std::byte*& bias : biases) {
      bias = at;
      at += bias_bytes(outputs);
    }
    input = reinterpret_cast<__half*>(at);
    at += part_bytes(args.input.rows, kRoundedInputBytes, args.input.cols);
    weights = reinterpret_cast<__half*>(at);
  }

  std::byte* workspace;
  int64_t workspace_bytes;
  std::byte* biases[kMostMatrices];
  __half* input;
  __half* weights;
};

/// Biases as cuBLASLt wants them: aligned, in the type of the outputs.
struct Biases {
  const std::byte* data[kMostMatrices] = {};
};

Biases prepare_biases(const MatmulArgs& args, const Scratch& scratch, Queue& queue) {
  Biases biases;
  BiasCopies copies;
  int64_t most = 0;
  for (int i = 0; i < args.count; ++i) {
    if (args.biases[i] == nullptr) continue;
    const bool as_half = args.outputs[i].type == ActivationType::kF16;
    if (!as_half && is_aligned(args.biases[i])) {
      biases.data[i] = reinterpret_cast<const std::byte*>(args.biases[i]);
      continue;
    }
    copies.from[i] = args.biases[i];
    copies.to[i] = scratch.biases[i];
    copies.count[i] = args.weights[i].rows;
    copies.as_half[i] = as_half;
    biases.data[i] = scratch.biases[i];
    most = std::max(most, copies.count[i]);
  }
  const dim3 grid(static_cast<unsigned>(divide_up(most, kThreads)), static_cast<unsigned>(args.count));
  launch<copy_biases>(queue, "matmul", {.grid = grid, .threads = kThreads}, copies);
  return biases;
}

ActivationView round_input(const ActivationView& input, __half* out, Queue& queue) {
  const auto eights_per_row = static_cast<uint32_t>(input.cols / 8);
  const auto eights = static_cast<uint32_t>(input.rows * eights_per_row);
  const bool wide = takes_wide(input, 8);
  const LaunchShape shape{.grid = static_cast<unsigned>(divide_up(eights, kThreads)), .threads = kThreads};
  if (input.type == ActivationType::kF16)
    launch<round_rows<__half>>(queue, "matmul", shape, half_data(input), input.stride, eights, eights_per_row, wide,
                               out);
  else
    launch<round_rows<float>>(queue, "matmul", shape, static_cast<const float*>(input.data), input.stride, eights,
                              eights_per_row, wide, out);
  return {out, input.rows, input.cols, input.cols, ActivationType::kF16};
}

void add_bias_after(const ActivationView& out, const float* bias, Queue& queue) {
  constexpr int64_t kMostRowBlocks = 1024;
  const dim3 grid(static_cast<unsigned>(divide_up(out.cols, kThreads)),
                  static_cast<unsigned>(std::min(out.rows, kMostRowBlocks)));
  const LaunchShape shape{.grid = grid, .threads = kThreads};
  if (out.type == ActivationType::kF16)
    launch<add_bias<__half>>(queue, "matmul", shape, half_data(out), out.stride, out.rows, out.cols, bias);
  else
    launch<add_bias<float>>(queue, "matmul", shape, static_cast<float*>(out.data), out.stride, out.rows, out.cols,
                            bias);
}

/// One product and all that follows it. What cuBLASLt cannot do in the same step becomes a step of its own.
void multiply_part(LibraryProduct product, const float* bias, Activation activation, Queue& queue) {
  product.gelu = activation == Activation::kGeluTanh && product.output.type == ActivationType::kF16;
  bool done = multiply_by_library(product, queue);
  if (!done && product.gelu) {
    product.gelu = false;
    done = multiply_by_library(product, queue);
  }
  if (!done && product.bias != nullptr) {
    product.bias = nullptr;
    done = multiply_by_library(product, queue);
  }
  if (!done)
    return queue.fail(OCELLUS_FAIL(Code::kDevice,
                                   "cuBLASLt has no product of %lld inputs and %lld outputs, rows %lld apart",
                                   static_cast<long long>(product.cols), static_cast<long long>(product.output.cols),
                                   static_cast<long long>(product.output.stride)));
  if (bias != nullptr && product.bias == nullptr) add_bias_after(product.output, bias, queue);
  if (activation != Activation::kNone && !product.gelu)
    cuda::activate({.values = product.output, .activation = activation}, queue);
}

/// Rows [first, first + x.rows) of the outputs of matrix i; x as aligned f16.
void multiply_matrix(const MatmulArgs& args, int i, int64_t first, const ActivationView& x, const Biases& biases,
                     const Scratch& scratch, Queue& queue) {
  const WeightView& weight = args.weights[i];
  const bool is_half = weight.format == WeightFormat::kF16;
  const int64_t step = is_half ? weight.rows : part_rows(weight.rows, kDecodedWeightBytes, weight.cols);
  const ActivationView out = args.outputs[i].slice_rows(first, x.rows);
  for (int64_t n = 0; n < weight.rows && queue.ok(); n += step) {
    const WeightView part = weight.slice_rows(n, std::min(step, weight.rows - n));
    if (!is_half) decode_weights(part, scratch.weights, queue);
    const std::byte* bias = biases.data[i];
    if (bias != nullptr) bias += n * out.value_bytes();
    multiply_part({.input = half_data(x),
                   .rows = x.rows,
                   .cols = x.cols,
                   .input_stride = x.stride,
                   .weights = is_half ? reinterpret_cast<const __half*>(part.data) : scratch.weights,
                   .bias = bias,
                   .accumulate = args.accumulate,
                   .output = out.slice_cols(n, part.rows),
                   .workspace = scratch.workspace,
                   .workspace_bytes = scratch.workspace_bytes},
                  args.biases[i] == nullptr ? nullptr : args.biases[i] + n, args.activation, queue);
  }
}

void multiply_many_rows(const MatmulArgs& args, int64_t largest, Queue& queue) {
  const ActivationView& input = args.input;
  const Scratch scratch(args, largest);
  const Biases biases = prepare_biases(args, scratch, queue);
  const bool is_usable = input.type == ActivationType::kF16 && takes_wide(input, 8);
  const int64_t step = is_usable ? input.rows : part_rows(input.rows, kRoundedInputBytes, input.cols);
  for (int64_t t = 0; t < input.rows && queue.ok(); t += step) {
    ActivationView x = input.slice_rows(t, std::min(step, input.rows - t));
    if (!is_usable) x = round_input(x, scratch.input, queue);
    for (int i = 0; i < args.count; ++i) multiply_matrix(args, i, t, x, biases, scratch, queue);
  }
}

void multiply_few_rows(const MatmulArgs& args, Queue& queue) {
  FewRowsArgs few;
  few.input = args.input;
  few.count = args.count;
  few.accumulate = args.accumulate;
  few.activation = args.activation;
  few.scratch = args.scratch;
  for (int i = 0; i < args.count; ++i) {
    few.weights[i] = args.weights[i];
    few.biases[i] = args.biases[i];
    few.outputs[i] = args.outputs[i];
  }
  multiply_few_rows(few, queue);
}

/// The contract's conditions on addresses and shapes; false, and a failure, if one does not hold.
bool is_sound(const MatmulArgs& args, int64_t largest, Queue& queue) {
  const int64_t needed = matmul_scratch_bytes(args.input.rows, args.input.cols, largest);
  const int64_t got = args.scratch.rows * args.scratch.cols;
  if (got < needed || reinterpret_cast<uintptr_t>(args.scratch.data) % 64 != 0) {
    queue.fail(OCELLUS_FAIL(Code::kInternal, "matmul needs %lld bytes of scratch aligned to 64 and got %lld",
                            static_cast<long long>(needed), static_cast<long long>(got)));
    return false;
  }
  bool sound = args.input.cols % 8 == 0 && !(args.accumulate && args.activation != Activation::kNone);
  for (int i = 0; i < args.count; ++i) sound = sound && is_aligned(args.weights[i].data);
  if (!sound)
    queue.fail(OCELLUS_FAIL(Code::kInternal,
                            "matmul on CUDA needs inner dimensions that 8 divides (not %lld), weights aligned to 16 "
                            "bytes, and either to accumulate or an activation",
                            static_cast<long long>(args.input.cols)));
  return sound;
}

}  // namespace

int64_t matmul_scratch_bytes(int64_t rows, int64_t cols, int64_t outputs) {
  const int64_t few = few_rows_scratch_bytes(std::min(rows, kFewRows), cols);
  const WeightView plain{nullptr, WeightFormat::kF16, outputs, cols};  // what takes the fewest rows for few
  return few_rows_fits(rows, &plain, 1, false) ? few : std::max(few, many_rows_scratch_bytes(rows, cols, outputs));
}

void matmul(const MatmulArgs& args, Queue& queue) {
  if (!queue.ok() || args.input.rows == 0) return;
  int64_t largest = 0;
  for (int i = 0; i < args.count; ++i) largest = std::max(largest, args.weights[i].rows);
  if (!is_sound(args, largest, queue)) return;
  if (few_rows_fits(args.input.rows, args.weights, args.count, false))
    multiply_few_rows(args, queue);
  else
    multiply_many_rows(args, largest, queue);
}

}  // namespace cuda
}  // namespace ocellus
