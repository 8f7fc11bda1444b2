#pragma once

#include "kernels/linear/matmul.h"
#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// gate = activation(gate) * up, element by element, with the activations of `activate` below.
///
/// Shapes    gate, up [T, F] (rows may be strided)
/// Types     activations
/// Aliasing  up must not overlap gate
/// Errors    kInternal in the queue for other activations than kSilu and kGeluTanh
struct GatedActivationArgs {
  ActivationView gate;
  ActivationView up;
  Activation activation = Activation::kSilu;
};
void gated_activation(const GatedActivationArgs& args, Queue& queue);

/// x = activation(x) in place. kGeluTanh: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))); kGeluErf: x Phi(x);
/// kQuickGelu: x sigmoid(1.702 x); kSilu: x sigmoid(x); kSquaredRelu: max(x, 0)^2; kNone: x.
///
/// Shapes    x [T, F]
/// Types     activations
struct ActivateArgs {
  ActivationView values;
  Activation activation = Activation::kGeluTanh;
};
void activate(const ActivateArgs& args, Queue& queue);

/// x[t] += addend[t % R].
///
/// Shapes    x [T, D]; addend [R, D]
/// Types     f32
struct AddRowsArgs {
  DeviceView<float> values;
  DeviceView<const float> addend;
};
void add_rows(const AddRowsArgs& args, Queue& queue);

/// x[t][c] += scale[c] * addend[t][c].
///
/// Shapes    x, addend [T, D] (rows may be strided); scale [D]
/// Types     x, scale f32; addend activations
/// Aliasing  none
struct AddScaledRowsArgs {
  DeviceView<float> values;
  ActivationView addend;
  const float* scale = nullptr;
};
void add_scaled_rows(const AddScaledRowsArgs& args, Queue& queue);

/// x = min(max(x, low), high) in place.
///
/// Shapes    x [T, D] (rows may be strided)
/// Types     f32 or activations
struct ClampRowsArgs {
  ActivationView values;
  float low = 0, high = 0;
};
void clamp_rows(const ClampRowsArgs& args, Queue& queue);

/// x[t][c] = (factor * x[t][c] - bias[c]) * scale[c] in place.
///
/// Shapes    x [T, D] (rows may be strided); bias, scale [D]
/// Types     f32
struct StandardiseRowsArgs {
  DeviceView<float> values;
  float factor = 1.0f;
  const float* bias = nullptr;
  const float* scale = nullptr;
};
void standardise_rows(const StandardiseRowsArgs& args, Queue& queue);

/// x = cap * tanh(x / cap) in place: no value is beyond the cap (soft-capping of logits).
///
/// Shapes    x [T, D] (rows may be strided)
/// Types     f32
struct CapRowsArgs {
  DeviceView<float> values;
  float cap = 1.0f;
};
void cap_rows(const CapRowsArgs& args, Queue& queue);

}  // namespace ocellus
