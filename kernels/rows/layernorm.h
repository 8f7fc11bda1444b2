#pragma once

#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// out[t] = (x[t] - mean(x[t])) / sqrt(variance(x[t]) + epsilon) * weight + bias
///
/// Shapes    x, out [T, D] (rows may be strided); weight, bias [D]
/// Types     x f32, out f32 or the backend's activations; mean first, then the variance around it (two passes)
/// Aliasing  out may be x if it is f32
struct LayerNormArgs {
  DeviceView<const float> input;
  const float* weight = nullptr;
  const float* bias = nullptr;
  float epsilon = 0;
  ActivationView output;
};

void layernorm(const LayerNormArgs& args, Queue& queue);

}  // namespace ocellus
