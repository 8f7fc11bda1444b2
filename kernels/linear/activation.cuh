// The activations of kernels/linear/matmul.h, selected at run time: for kernels that apply them to a few values.
#pragma once

#include "kernels/linear/matmul.h"

namespace ocellus::cuda {

__device__ inline float silu(float x) { return x / (1.0f + __expf(-x)); }

__device__ inline float activated(float x, Activation activation) {
  constexpr float kTwoRoot = 1.5957691216057308f;  // 2 sqrt(2 / pi); (1 + tanh(a)) / 2 = sigmoid(2a)
  switch (activation) {
    case Activation::kNone: return x;
    case Activation::kGeluTanh: return x / (1.0f + __expf(-x * (x * x * (0.044715f * kTwoRoot) + kTwoRoot)));
    case Activation::kGeluErf: return 0.5f * x * erfcf(x * -0.70710678118654752f);
    case Activation::kQuickGelu: return x / (1.0f + __expf(-1.702f * x));
    case Activation::kSilu: return silu(x);
    case Activation::kSquaredRelu: return fmaxf(x, 0.0f) * fmaxf(x, 0.0f);
  }
  return x;
}

}  // namespace ocellus::cuda
