#pragma once

#include "platform/queue.h"
#include "platform/views.h"
#include "quant/weight_format.h"

namespace ocellus {

/// CPU: number of input rows up to which each gets the outputs that it has alone, bit by bit; batch-invariant calls are
/// cut into parts of that size.
inline constexpr int64_t kMostRowsAlike = 7;

enum class Activation : uint8_t { kNone, kGeluTanh, kGeluErf, kQuickGelu, kSilu, kSquaredRelu };

/// out_i = activation(x W_i^T + bias_i), for up to three weight matrices that share the input (query, key and value;
/// gate and up).
///
/// Shapes      x [T, K]; W_i [N_i, K] in a file format; bias_i [N_i] f32 or null; out_i [T, N_i]
/// Types       x f32 or activations; each out f32 or activations
/// Arithmetic  CPU: F32/F16/BF16 weights, products and sums in f32. Block formats: x is rounded to int8 with one f32
///             scale per 32 inputs, products exact in int32 per group, scaled sums in f32.
///             CPU, 8 rows and more, sums in f32: with AMX F16/BF16 weights as they are and x with 16 bits, as sums of
///             two bf16, block formats and x as bf16. With CpuMath::kBf16, AMX and AVX512_BF16 of AMD: F16/BF16 weights
///             and x as bf16.
///             CUDA, few rows: as on the CPU, except that for F32/F16/BF16 weights x and the weights are taken as f16;
///             three to eight rows, and all few rows if they are batch-invariant: x as f16 for all formats.
///             CUDA, many rows, weights not aligned to 16 bytes, K that 8 does not divide: x and decoded weights as
///             f16, sums in f32; biases are rounded to the type of their outputs.
/// Divisible   K by the block size of the format, and by 32 for block formats; T, N any >= 1
/// Aligned     CUDA: weights to 8 bytes; weights, inputs, outputs and their rows better to 16
/// Aliasing    outputs must not overlap the input or each other; `accumulate` adds into the outputs, which then are
///             f32 (residual stream)
/// Scratch     matmul_scratch_bytes(T, K, largest N_i, traits), aligned to 64
/// Determinism same inputs give the same bits, whatever the number of threads; batch-invariant: rows of at most
///             DeviceTraits::kInvariantRows those that they have alone
/// Errors      kInternal in the queue if scratch is too small or not aligned, or if there is `accumulate` together
///             with an activation or with outputs that are not f32
struct MatmulArgs {
  ActivationView input;
  int count = 1;
  WeightView weights[3] = {};
  const float* biases[3] = {};
  ActivationView outputs[3] = {};
  bool accumulate = false;
  Activation activation = Activation::kNone;
  DeviceView<std::byte> scratch;

  /// The call for rows [first, first + rows) alone.
  MatmulArgs slice_rows(int64_t first, int64_t rows) const {
    MatmulArgs some = *this;
    some.input = input.slice_rows(first, rows);
    for (int i = 0; i < count; ++i) some.outputs[i] = outputs[i].slice_rows(first, rows);
    return some;
  }
};

/// Maximum scratch of any call with at most `rows` rows, inner dimension at most `cols` and matrices of at most
/// `outputs` rows.
int64_t matmul_scratch_bytes(int64_t rows, int64_t cols, int64_t outputs, const DeviceTraits& device);

void matmul(const MatmulArgs& args, Queue& queue);

}  // namespace ocellus
