// The parts of a text layer that prefill and decode share. The two differ only in how keys and values are stored and
// attended to:
//
//   project_qkv -> (rotate, store, attend: prefill.cpp or decode_step.cpp) -> add_attention_output -> add_mlp
#pragma once

#include "platform/arena.h"
#include "platform/queue.h"
#include "runtime/models/text_model.h"

namespace ocellus {

/// Phases in which rows pass through the layers.
inline constexpr Phase kPrefillPhase{"prefill"}, kDecodePhase{"decode"};

/// The buffers of one layer as views of the current rows. `normed` and `mixed` share memory: one is the input of the
/// attention, the other its output.
struct LayerRows {
  ActivationView normed;     // [T, D]
  ActivationView mixed;      // [T, H * E]
  ActivationView query;      // [T, H * E]; query, key and value are adjacent
  ActivationView key;        // [T, G * E]
  ActivationView value;      // [T, G * E]
  ActivationView gate;       // [T, F]; gate and up are adjacent
  ActivationView up;         // [T, F]
  DeviceView<float> branch;  // [T, D] output of attention or MLP before its norm; none without such norms
  DeviceView<std::byte> matmul_scratch;
};

struct LayerScratch {
  ActivationView normed_or_mixed;  // [rows, max(D, H * E)]
  ActivationView qkv;              // [rows, (H + 2 G) E]
  ActivationView gate_up;          // [rows, 2 F]
  DeviceView<float> branch;        // [rows, D], if outputs of branches are normalised
  DeviceView<std::byte> matmul_scratch;

  /// Other users of the matrix products' scratch: a matrix of `outputs` rows (the unembedding), and ops between the
  /// products that need `op_bytes` (the attention).
  struct Others {
    int64_t outputs = 0;
    int64_t op_bytes = 0;
  };
  Status lay_out(const TextConfig& config, int64_t rows, const Others& others, const DeviceTraits& device, Phase phase,
                 RowSink& sink);
  LayerRows view(const TextConfig& config, int64_t rows) const;
};

/// rows.query, key, value = the projections of the normalised hidden rows, not yet rotated; heads are normalised if the
/// model does that.
void project_qkv(const TextConfig& config, const TextLayer& weights, DeviceView<const float> hidden,
                 const LayerRows& rows, Queue& queue);

/// hidden += W_o rows.mixed, normalised if the model does that
void add_attention_output(const TextConfig& config, const TextLayer& weights, const LayerRows& rows,
                          DeviceView<float> hidden, Queue& queue);

/// hidden += W_down (activation(W_gate n) * (W_up n)), n the normalised hidden rows; normalised alike
void add_mlp(const TextConfig& config, const TextLayer& weights, const LayerRows& rows, DeviceView<float> hidden,
             Queue& queue);

}  // namespace ocellus
