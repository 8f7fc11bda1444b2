#pragma once

#include "kernels/linear/matmul.h"

namespace ocellus {

/// rmsnorm, then matmul: out_i = activation(n W_i^T + bias_i), n[t] = x[t] / sqrt(mean(x[t]^2) + epsilon) *
/// norm_weight. One kernel for few rows on CUDA; elsewhere the two ops, with n in `normed`.
///
/// Shapes, types, arithmetic, scratch, errors: as matmul's, x f32; normed [T, K] activations
struct NormMatmulArgs {
  DeviceView<const float> input;
  const float* norm_weight = nullptr;
  float epsilon = 0;
  ActivationView normed;
  int count = 1;
  WeightView weights[3];
  const float* biases[3] = {};
  ActivationView outputs[3];
  Activation activation = Activation::kNone;
  DeviceView<std::byte> scratch;
};

void norm_matmul(const NormMatmulArgs& args, Queue& queue);

/// rmsnorm, two products and gated_activation: gate = activation(n W_gate^T + b_gate) * (n W_up^T + b_up), n as above.
/// One kernel for few rows on CUDA; elsewhere these ops one after the other, which also write `up`.
///
/// Shapes    x [T, K] f32; W_gate, W_up [F, K]; gate, up [T, F]; normed [T, K]
struct GatedMatmulArgs {
  DeviceView<const float> input;
  const float* norm_weight = nullptr;
  float epsilon = 0;
  ActivationView normed;
  WeightView gate_weight;
  WeightView up_weight;
  const float* gate_bias = nullptr;
  const float* up_bias = nullptr;
  ActivationView gate;
  ActivationView up;
  Activation activation = Activation::kSilu;
  DeviceView<std::byte> scratch;
};

void gated_matmul(const GatedMatmulArgs& args, Queue& queue);

}  // namespace ocellus
