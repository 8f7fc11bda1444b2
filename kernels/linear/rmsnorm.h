#pragma once

#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// out[t] = x[t] / sqrt(mean(x[t]^2) + epsilon) * weight; `accumulate`: out[t] = (out[t] + ...) * sum_scale
///
/// Shapes    x, out [T, D] (rows may be strided); weight [D], or null: 1
/// Types     x and out f32 or the backend's activations; the sum of squares in f32 lanes (tested against f64)
/// Aliasing  out may be x if they have the same type, but not with `accumulate`
/// Errors    kInternal in the queue on CUDA for f16 to f32, and for `accumulate` unless x and out are f32
struct RmsNormArgs {
  ActivationView input;
  const float* weight = nullptr;
  float epsilon = 0;
  ActivationView output;
  bool accumulate = false;
  float sum_scale = 1.0f;
};

void rmsnorm(const RmsNormArgs& args, Queue& queue);

/// Normalises every head of queries, keys and values in place, before rotation: x = x / sqrt(mean(x^2) + epsilon) *
/// weight * scale over the E channels x of a head. Values have neither weight nor scale, keys no scale.
///
/// Shapes    query [T, H * E], key, value [T, G * E] (rows may be strided; those without columns are left out);
///           query_weight, key_weight [E]
/// Types     activations; the sum of squares in f32
/// Divisible E by 8, E <= kMaxHeadDim
struct NormaliseHeadsArgs {
  ActivationView query = {}, key = {}, value = {};
  const float* query_weight = nullptr;
  const float* key_weight = nullptr;
  float query_scale = 1.0f;
  int32_t head_dim = 0;
  float epsilon = 0;
};

void normalise_heads(const NormaliseHeadsArgs& args, Queue& queue);

}  // namespace ocellus
