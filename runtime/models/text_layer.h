// The parts of a text layer that prefill and decode share. The two differ only in how keys and values are stored and
// attended to:
//
//   project_qkv -> (rotate, store, attend: prefill.cpp or decode_step.cpp) -> add_attention_output -> add_mlp
#pragma once

#include "kernels/rows/short_conv.h"
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
  ActivationView mixed;      // [T, H * E]; these four [T, D] with a convolution, in place of attention: its output,
  ActivationView query;      // [T, H * E]  gate,
  ActivationView key;        // [T, G * E]  the output's gate
  ActivationView value;      // [T, G * E]  and x
  ActivationView gate;       // [T, F]; gate and up are adjacent. The MLP's rows if it has no gate
  ActivationView up;         // [T, F]; none without a gate
  DeviceView<float> branch;  // [T, D] output of attention, MLP or the layer's input before its norm; none without
                             // such norms
  DeviceView<std::byte> matmul_scratch;
};

/// E and the widths that follow from it are those of the layer.
struct LayerScratch {
  ActivationView normed_or_mixed;  // [rows, max(D, H * E)]
  ActivationView qkv;              // [rows, (H + 2 G) E], or [rows, 3 D] if that is more and there are convolutions
  ActivationView gate_up;          // [rows, 2 F], or [rows, F] without a gate
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
  LayerRows view(const TextConfig& config, int32_t layer, int64_t rows) const;
};

/// Inputs of the layers, for models that have them: see LayerInputs.
struct LayerInputScratch {
  ActivationView inputs;             // [rows, layers * P]
  DeviceView<float> mixed, mapped;   // [rows of a block, layers * P] while they are computed
  DeviceView<std::byte> op_scratch;  // scratch of the product

  Status lay_out(const TextConfig& config, int64_t rows, const DeviceTraits& device, Phase phase, RowSink& sink);
  bool on() const { return inputs.cols > 0; }
  ActivationView of_layer(const TextConfig& config, int32_t layer, int64_t first, int64_t count) const {
    return inputs.slice_rows(first, count)
        .slice_cols(int64_t{layer} * config.layer_input_width, config.layer_input_width);
  }
};

/// The tokens of rows, `stride` numbers apart; rows of pictures have kSkippedRow.
struct RowTokens {
  const int32_t* ids = nullptr;
  int64_t stride = 1;
};

/// Computes the inputs of all layers for rows `embedded` [T, D]: (norm(W x) + sqrt(P) table[token]) / sqrt(2). Rows of
/// pictures have the vocabulary's first token, as in transformers.
void find_layer_inputs(const TextModel& model, const RowTokens& tokens, DeviceView<const float> embedded,
                       const LayerInputScratch& scratch, Queue& queue);

/// hidden = (hidden + norm(W_map (gate(W_gate hidden) * inputs))) * scale
void add_layer_input(const TextConfig& config, const TextLayer& weights, const ActivationView& inputs,
                     const LayerRows& rows, DeviceView<float> hidden, Queue& queue);

/// The convolution of a layer that has one, between the two below.
ShortConv convolution_of(const TextConfig& config, const TextLayer& weights, const LayerRows& rows);

/// rows.query, key, value = the projections of the normalised hidden rows, not yet rotated; heads are normalised if the
/// model does that. A layer that shares another's keys and values has queries only.
void project_qkv(const TextConfig& config, int32_t layer, const TextLayer& weights, DeviceView<const float> hidden,
                 const LayerRows& rows, Queue& queue);

/// hidden += W_o rows.mixed, normalised if the model does that
void add_attention_output(const TextConfig& config, const TextLayer& weights, const LayerRows& rows,
                          DeviceView<float> hidden, Queue& queue);

/// hidden += W_down (activation(W_gate n) * (W_up n)), or W_down activation(W_up n) without a gate, n the normalised
/// hidden rows; normalised alike
void add_mlp(const TextConfig& config, const TextLayer& weights, const LayerRows& rows, DeviceView<float> hidden,
             Queue& queue);

}  // namespace ocellus
