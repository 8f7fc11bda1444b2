// The router of matrix products: few rows are limited by reading weights (matmul_few_rows), many rows by arithmetic,
// which cuBLASLt does in f16. Operands that are not f16, or not aligned, are rounded or decoded into scratch part by
// part.
#include "kernels/backends.h"
#include "kernels/base/launch.cuh"
#include "kernels/base/row_access.cuh"
#include "kernels/linear/decode_weights.cuh"
#include "kernels/linear/elementwise.h"
#include "kernels/linear/library_product.cuh"
#include "kernels/linear/matmul.h"
#include "kernels/linear/matmul_few_rows.h"
#include "kernels/linear/matmul_scratch.h"

namespace ocellus {
namespace cuda {
namespace {

// Blocks of lean devices are multiplied by weights in their file format.
static_assert(DeviceTraits::kLeanRows <= kFewRows && DeviceTraits::kInvariantRows <= kFewRows);

constexpr int kThreads = 256;
constexpr int64_t kWeightAlignment = 8;  // minimum alignment in files

bool is_aligned(const void* address) { return reinterpret_cast<uintptr_t>(address) % kLibraryAlignment == 0; }

/// Converts rows to packed f16 with zeros up to a multiple of eight values, eight values per thread.
template <class Value>
__global__ void round_rows(const Value* input, int64_t stride, uint32_t cols, uint32_t eights_per_row, uint32_t eights,
                           bool wide, __half* out) {
  wait_for_inputs();
  let_next_start();
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= eights) return;
  const uint32_t first = 8 * (i % eights_per_row);
  const Value* from = input + i / eights_per_row * stride + first;
  float values[8];
  if (wide && first + 8 <= cols) {
    load_values<8>(from, values);
  } else {
#pragma unroll
    for (uint32_t k = 0; k < 8; ++k) values[k] = first + k < cols ? load_value(from + k) : 0.0f;
  }
  store_values<8>(out + int64_t{8} * i, values);
}

struct BiasCopies {
  const float* from[kMaxMatrices] = {};  // null: nothing to copy
  void* to[kMaxMatrices] = {};
  int64_t count[kMaxMatrices] = {};
  bool as_half[kMaxMatrices] = {};
};

/// One row of blocks per matrix.
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
__global__ void add_bias(Value* out, int64_t stride, int64_t rows, int64_t cols, const Value* bias) {
  wait_for_inputs();
  let_next_start();
  const int64_t n = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (n >= cols) return;
  const float addend = load_value(bias + n);
  for (int64_t t = blockIdx.y; t < rows; t += gridDim.y)
    store_value(out + t * stride + n, load_value(out + t * stride + n) + addend);
}

/// Offsets in the scratch of a call.
struct Scratch {
  Scratch(const MatmulArgs& args, int64_t outputs, bool lean_) : lean(lean_) {
    const int64_t rows = args.input.rows;
    const auto address = reinterpret_cast<uintptr_t>(args.scratch.data);
    workspace = args.scratch.data + (kScratchUnit - static_cast<int64_t>(address % kScratchUnit)) % kScratchUnit;
    workspace_bytes = library_workspace_bytes(rows, kMaxMatrices * outputs, lean);
    biases = workspace + workspace_bytes;
    std::byte* const after = biases + kMaxMatrices * bias_bytes(outputs);
    input = reinterpret_cast<__half*>(after);
    weights =
        reinterpret_cast<__half*>(after + part_bytes(rows, rounded_input_bytes(lean), padded_cols(args.input.cols)));
  }

  bool lean;
  std::byte* workspace;
  int64_t workspace_bytes;
  std::byte* biases;
  __half* input;
  __half* weights;
};

/// Matrices first, first + 1, ... of a call that are multiplied as one.
struct Group {
  int first = 0;
  int count = 1;
  int64_t rows = 0;                 // rows of all its weights
  bool decoded = false;             // into scratch; otherwise used in place
  const std::byte* bias = nullptr;  // as cuBLASLt needs it: aligned, in the type of the outputs
};

struct Groups {
  Group list[kMaxMatrices];
  int count = 0;
};

bool is_usable(const WeightView& weight) {
  return weight.format == WeightFormat::kF16 && has_usable_rows(weight.data, weight.cols);
}

/// True if the outputs of matrix i follow those of the matrix before directly, and both have a bias or neither.
bool continues(const MatmulArgs& args, int i) {
  const ActivationView &before = args.outputs[i - 1], &out = args.outputs[i];
  return out.data == before.slice_cols(before.cols, 0).data && out.stride == before.stride && out.type == before.type &&
         (args.biases[i] == nullptr) == (args.biases[i - 1] == nullptr);
}

/// Adjacent matrices whose weights are decoded are joined if they fit into scratch together: one product instead of
/// three starts once and uses the device better.
Groups form_groups(const MatmulArgs& args, bool lean) {
  const int64_t budget = decoded_weight_bytes(args.input.rows, lean), cols = padded_cols(args.input.cols);
  Groups groups;
  for (int i = 0; i < args.count; ++i) {
    const WeightView& weight = args.weights[i];
    const bool decoded = !is_usable(weight);
    if (i > 0 && decoded && continues(args, i)) {
      Group& last = groups.list[groups.count - 1];
      const int64_t together = last.rows + weight.rows;
      if (last.decoded && part_rows(together, budget, cols) == together) {
        ++last.count;
        last.rows = together;
        continue;
      }
    }
    groups.list[groups.count++] = {.first = i, .rows = weight.rows, .decoded = decoded};
  }
  return groups;
}

void prepare_biases(const MatmulArgs& args, const Scratch& scratch, Groups& groups, Queue& queue) {
  BiasCopies copies;
  std::byte* at = scratch.biases;
  int64_t most = 0;
  for (int g = 0; g < groups.count; ++g) {
    Group& group = groups.list[g];
    const float* first = args.biases[group.first];
    if (first == nullptr) continue;
    const ActivationView& out = args.outputs[group.first];
    const bool as_half = out.type == ActivationType::kF16;
    if (!as_half && group.count == 1 && is_aligned(first)) {
      group.bias = reinterpret_cast<const std::byte*>(first);
      continue;
    }
    group.bias = at;
    std::byte* to = at;
    for (int i = group.first; i < group.first + group.count; ++i) {
      copies.from[i] = args.biases[i];
      copies.to[i] = to;
      copies.count[i] = args.weights[i].rows;
      copies.as_half[i] = as_half;
      to += copies.count[i] * out.value_bytes();
      most = std::max(most, copies.count[i]);
    }
    at += bias_bytes(group.rows);
  }
  const dim3 grid(static_cast<unsigned>(divide_up(most, kThreads)), static_cast<unsigned>(args.count));
  launch<copy_biases>(queue, "matmul", {.grid = grid, .threads = kThreads}, copies);
}

ActivationView round_input(const ActivationView& input, __half* out, Queue& queue) {
  const int64_t cols = padded_cols(input.cols);
  const auto from_cols = static_cast<uint32_t>(input.cols), eights_per_row = static_cast<uint32_t>(cols / 8);
  const auto eights = static_cast<uint32_t>(input.rows * eights_per_row);
  const bool wide = takes_wide(input, 8);
  const LaunchShape shape{.grid = static_cast<unsigned>(divide_up(eights, kThreads)), .threads = kThreads};
  if (input.type == ActivationType::kF16)
    launch<round_rows<__half>>(queue, "matmul", shape, half_data(input), input.stride, from_cols, eights_per_row,
                               eights, wide, out);
  else
    launch<round_rows<float>>(queue, "matmul", shape, static_cast<const float*>(input.data), input.stride, from_cols,
                              eights_per_row, eights, wide, out);
  return {out, input.rows, cols, cols, ActivationType::kF16};
}

void add_bias_after(const ActivationView& out, const void* bias, Queue& queue) {
  constexpr int64_t kMaxRowBlocks = 1024;
  const dim3 grid(static_cast<unsigned>(divide_up(out.cols, kThreads)),
                  static_cast<unsigned>(std::min(out.rows, kMaxRowBlocks)));
  const LaunchShape shape{.grid = grid, .threads = kThreads};
  if (out.type == ActivationType::kF16)
    launch<add_bias<__half>>(queue, "matmul", shape, half_data(out), out.stride, out.rows, out.cols,
                             static_cast<const __half*>(bias));
  else
    launch<add_bias<float>>(queue, "matmul", shape, static_cast<float*>(out.data), out.stride, out.rows, out.cols,
                            static_cast<const float*>(bias));
}

/// Runs one product and what follows it. Steps that cuBLASLt cannot fuse run separately.
void multiply_part(LibraryProduct product, Activation activation, Queue& queue) {
  const void* bias = product.bias;
  product.gelu = activation == Activation::kGeluTanh && product.output.type == ActivationType::kF16;
  bool done = multiply_by_library(product, queue);
  if (!done && product.gelu) {
    product.gelu = false;
    done = multiply_by_library(product, queue);
  }
  if (!done && bias != nullptr) {
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

/// Returns rows [first, first + count) of the group's weights as f16. Groups of several matrices are decoded as a
/// whole.
const __half* prepare_weights(const MatmulArgs& args, const Group& group, int64_t first, int64_t count,
                              const Scratch& scratch, Queue& queue) {
  const WeightView& weight = args.weights[group.first];
  if (!group.decoded) return reinterpret_cast<const __half*>(weight.row(first));
  if (group.count == 1) {
    decode_weights(weight.slice_rows(first, count), scratch.weights, queue);
    return scratch.weights;
  }
  __half* to = scratch.weights;
  for (int i = group.first; i < group.first + group.count; ++i) {
    decode_weights(args.weights[i], to, queue);
    to += args.weights[i].rows * padded_cols(args.weights[i].cols);
  }
  return scratch.weights;
}

/// Computes rows [first, first + x.rows) of the outputs of a group; x as aligned f16.
void multiply_group(const MatmulArgs& args, const Group& group, int64_t first, const ActivationView& x,
                    const Scratch& scratch, Queue& queue) {
  ActivationView out = args.outputs[group.first].slice_rows(first, x.rows);
  out.cols = group.rows;
  const int64_t budget = decoded_weight_bytes(args.input.rows, scratch.lean);
  const int64_t step = group.decoded ? part_rows(group.rows, budget, x.cols) : group.rows;
  for (int64_t n = 0; n < group.rows && queue.ok(); n += step) {
    const int64_t count = std::min(step, group.rows - n);
    multiply_part({.input = half_data(x),
                   .rows = x.rows,
                   .cols = x.cols,
                   .input_stride = x.stride,
                   .weights = prepare_weights(args, group, n, count, scratch, queue),
                   .bias = group.bias == nullptr ? nullptr : group.bias + n * out.value_bytes(),
                   .accumulate = args.accumulate,
                   .output = out.slice_cols(n, count),
                   .workspace = scratch.workspace,
                   .workspace_bytes = scratch.workspace_bytes},
                  args.activation, queue);
  }
}

void multiply_many_rows(const MatmulArgs& args, int64_t largest, Queue& queue) {
  const ActivationView& input = args.input;
  const Scratch scratch(args, largest, queue.traits().lean);
  Groups groups = form_groups(args, scratch.lean);
  prepare_biases(args, scratch, groups, queue);
  const bool usable =
      input.type == ActivationType::kF16 && padded_cols(input.cols) == input.cols && takes_wide(input, 8);
  const int64_t step =
      usable ? input.rows : part_rows(input.rows, rounded_input_bytes(scratch.lean), padded_cols(input.cols));
  for (int64_t t = 0; t < input.rows && queue.ok(); t += step) {
    ActivationView x = input.slice_rows(t, std::min(step, input.rows - t));
    if (!usable) x = round_input(x, scratch.input, queue);
    for (int g = 0; g < groups.count; ++g) multiply_group(args, groups.list[g], t, x, scratch, queue);
  }
}

/// Multiplies by weights that the kernels for few rows cannot read.
void multiply_each_row(const MatmulArgs& args, int64_t largest, Queue& queue) {
  for (int64_t t = 0; t < args.input.rows; ++t) multiply_many_rows(args.slice_rows(t, 1), largest, queue);
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

/// Checks the contract's conditions on addresses and shapes; returns false, with a failure, if one does not hold.
bool is_sound(const MatmulArgs& args, int64_t largest, Queue& queue) {
  const int64_t needed = matmul_scratch_bytes(args.input.rows, args.input.cols, largest, queue.traits().lean);
  const int64_t got = args.scratch.rows * args.scratch.cols;
  if (got < needed || reinterpret_cast<uintptr_t>(args.scratch.data) % 64 != 0) {
    queue.fail(OCELLUS_FAIL(Code::kInternal, "matmul needs %lld bytes of scratch aligned to 64 and got %lld",
                            static_cast<long long>(needed), static_cast<long long>(got)));
    return false;
  }
  bool sound = !(args.accumulate && args.activation != Activation::kNone);
  for (int i = 0; i < args.count; ++i) {
    sound = sound && reinterpret_cast<uintptr_t>(args.weights[i].data) % kWeightAlignment == 0;
    sound = sound && !(args.accumulate && args.outputs[i].type != ActivationType::kF32);
  }
  if (!sound)
    queue.fail(OCELLUS_FAIL(Code::kInternal,
                            "matmul on CUDA needs weights aligned to %lld bytes, and accumulates into f32 and without "
                            "an activation only",
                            static_cast<long long>(kWeightAlignment)));
  return sound;
}

}  // namespace

void matmul(const MatmulArgs& args, Queue& queue) {
  if (!queue.ok() || args.input.rows == 0) return;
  int64_t largest = 0;
  for (int i = 0; i < args.count; ++i) largest = std::max(largest, args.weights[i].rows);
  if (!is_sound(args, largest, queue)) return;
  if (few_rows_fits(args.input.rows, args.weights, args.count, false, queue.traits())) {
    multiply_few_rows(args, queue);
  } else if (queue.traits().batch_invariant && args.input.rows <= DeviceTraits::kInvariantRows) {
    multiply_each_row(args, largest, queue);
  } else {
    multiply_many_rows(args, largest, queue);
  }
}

}  // namespace cuda
}  // namespace ocellus
