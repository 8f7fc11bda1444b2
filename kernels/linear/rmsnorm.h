#pragma once

#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// out[t] = x[t] / sqrt(mean(x[t]^2) + epsilon) * weight
///
/// Shapes    x, out [T, D] (rows may be strided); weight [D]
/// Types     x f32, out f32 or the backend's activations; the sum of squares in f32 lanes (tested against f64)
/// Aliasing  out may be x if it is f32
struct RmsNormArgs {
  DeviceView<const float> input;
  const float* weight = nullptr;
  float epsilon = 0;
  ActivationView output;
};

void rmsnorm(const RmsNormArgs& args, Queue& queue);

}  // namespace ocellus
