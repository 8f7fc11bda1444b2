// The parts of a text layer that prefill and decode share. What differs between the two is only how keys and values
// are stored and attended to:
//
//   project_qkv -> (store, attend: prefill.cpp or decode_step.cpp) -> add_attention_output -> add_mlp
#pragma once

#include "platform/arena.h"
#include "platform/queue.h"
#include "runtime/text_model.h"

namespace ocellus {

/// The buffers of one layer, seen for the rows in flight. `normed` and `mixed` share memory: one is the input of the
/// attention, the other its output.
struct LayerRows {
  DeviceView<float> normed;  // [T, D]
  DeviceView<float> mixed;   // [T, H * E]
  DeviceView<float> query;   // [T, H * E], these three side by side
  DeviceView<float> key;     // [T, G * E]
  DeviceView<float> value;   // [T, G * E]
  DeviceView<float> gate;    // [T, F], these two side by side
  DeviceView<float> up;      // [T, F]
  DeviceView<std::byte> matmul_scratch;
};

struct LayerScratch {
  DeviceView<float> normed_or_mixed;  // [rows, max(D, H * E)]
  DeviceView<float> qkv;              // [rows, (H + 2 G) E]
  DeviceView<float> gate_up;          // [rows, 2 F]
  DeviceView<std::byte> matmul_scratch;

  Status lay_out(const TextConfig& config, int64_t rows, int thread_count, Phase phase, RowSink& sink);
  LayerRows view(const TextConfig& config, int64_t rows) const;
};

/// rows.query, key, value = the projections of the normalised hidden rows; query and key rotated by `angles`.
void project_qkv(const TextConfig& config, const TextLayer& weights, DeviceView<const float> hidden,
                 DeviceView<const float> angles, const LayerRows& rows, Queue& queue);

/// hidden += W_o rows.mixed
void add_attention_output(const TextLayer& weights, const LayerRows& rows, DeviceView<float> hidden, Queue& queue);

/// hidden += W_down (silu(W_gate n) * (W_up n)), n the normalised hidden rows
void add_mlp(const TextConfig& config, const TextLayer& weights, const LayerRows& rows, DeviceView<float> hidden,
             Queue& queue);

}  // namespace ocellus
