#pragma once

#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// Factor of a query by its position p: scale (1 + beta ln(1 + floor(p / length))). Rows that see more than `length`
/// positions look more sharply (Llama 4, Ministral 3).
struct QueryTemperature {
  float scale = 1.0f;
  float beta = 0;
  int32_t length = 1;

  bool used() const { return scale != 1.0f || beta != 0; }
};

/// x[t] *= the factor at positions[t], in place. As rotation is linear, it may come before or after it.
///
/// Shapes    x [T, D] (rows may be strided); positions [T], position_stride numbers apart, none negative
/// Types     activations; the factor is computed in f32
struct TemperQueriesArgs {
  ActivationView values;
  const int32_t* positions = nullptr;
  int64_t position_stride = 1;
  QueryTemperature temperature;
};
void temper_queries(const TemperQueriesArgs& args, Queue& queue);

}  // namespace ocellus
