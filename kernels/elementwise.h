#pragma once

#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// gate = silu(gate) * up, element by element; silu(x) = x / (1 + exp(-x)).
///
/// Shapes    gate, up [T, F]
/// Types     f32
/// Aliasing  up must not overlap gate
struct GatedSiluArgs {
  DeviceView<float> gate;
  DeviceView<const float> up;
};
void gated_silu(const GatedSiluArgs& args, Queue& queue);

enum class Activation : uint8_t { kGeluTanh, kGeluErf, kQuickGelu, kSilu };

/// x = activation(x) in place. kGeluTanh: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))); kGeluErf: x Phi(x);
/// kQuickGelu: x sigmoid(1.702 x); kSilu: x sigmoid(x).
///
/// Shapes    x [T, F]
/// Types     f32
struct ActivateArgs {
  DeviceView<float> values;
  Activation activation = Activation::kGeluTanh;
};
void activate(const ActivateArgs& args, Queue& queue);

/// x[t] += addend[t].
///
/// Shapes    x, addend [T, D]
/// Types     f32
struct AddRowsArgs {
  DeviceView<float> values;
  DeviceView<const float> addend;
};
void add_rows(const AddRowsArgs& args, Queue& queue);

}  // namespace ocellus
