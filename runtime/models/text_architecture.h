// The supported text architectures, as data. general.architecture names a row of the table; the row holds all that
// distinguishes the architecture, everything else is in a file's keys and tensors.
#pragma once

#include <string_view>

#include "kernels/linear/matmul.h"
#include "kernels/rows/rope.h"

namespace ocellus {

class TextKeys;
struct LayerRows;
struct TextConfig;
struct TextLayer;

/// Normalises heads of queries and keys.
void normalise_queries_and_keys(const TextConfig& config, int32_t layer, const TextLayer& weights,
                                const LayerRows& rows, Queue& queue);
/// Normalises those of values, too, without weights. Attention does not divide scores by sqrt(E).
void normalise_all_heads(const TextConfig& config, int32_t layer, const TextLayer& weights, const LayerRows& rows,
                         Queue& queue);

/// Positions have three coordinates, in consecutive or interleaved pairs of a head: rope.dimension_sections.
Status read_sections(TextKeys& keys, TextConfig* config);
Status read_interleaved_sections(TextKeys& keys, TextConfig* config);
/// Layers without heads of keys and values have convolutions.
Status read_convolutions(TextKeys& keys, TextConfig* config);
/// See QueryTemperature.
Status read_temperature(TextKeys& keys, TextConfig* config);
/// See LayerInputs.
Status read_layer_inputs(TextKeys& keys, TextConfig* config);

struct TextArchitecture {
  const char* name = "";  // general.architecture, and the prefix of keys
  RopePairing pairing = RopePairing::kAdjacent;
  /// Normalises heads before rotation; null: they stay as they are.
  void (*normalise_heads)(const TextConfig& config, int32_t layer, const TextLayer& weights, const LayerRows& rows,
                          Queue& queue) = nullptr;
  /// Reads keys of its own; null: it has none. Errors as read_text_config.
  Status (*read)(TextKeys& keys, TextConfig* config) = nullptr;
  bool has_own_output = false;    // output.weight is required; otherwise the embedding is used if it is missing
  bool has_branch_norms = false;  // outputs of attention and MLP are normalised before they are added to the rows
  bool scales_embedding = false;  // embeddings of tokens are multiplied by sqrt(D)
  bool has_gate = true;           // the MLP multiplies by a gate
  Activation activation = Activation::kSilu;  // the MLP's gate has it, or its rows without a gate
  // Every period-th layer sees all positions, the others those of attention.sliding_window, if a file has no
  // attention.sliding_window_pattern. 0: there is no such pattern, and the window limits the context.
  int32_t window_period = 0;
  float local_rope_base = 0;         // base of layers with a window; their positions are not scaled
  bool has_mutual_pictures = false;  // rows of a picture see each other
  bool has_convolutions = false;     // in layers that are listed with no heads of keys and values
  const char* final_norm = "output_norm";
  int32_t unlike_scale_layers = 0;  // a model of this size scales scores by another number than 1 / sqrt(E)
  // Random models only. A file's biases are used if present.
  bool has_qkv_biases = false;
  const char* pre_tokenizer = "smollm";
};

inline constexpr TextArchitecture kTextArchitectures[] = {
    {.name = "llama"},
    {.name = "internlm2", .has_own_output = true},
    {.name = "qwen2", .pairing = RopePairing::kHalves, .has_qkv_biases = true, .pre_tokenizer = "qwen2"},
    {.name = "qwen3",
     .pairing = RopePairing::kHalves,
     .normalise_heads = normalise_queries_and_keys,
     .pre_tokenizer = "qwen2"},
    {.name = "gemma3",
     .pairing = RopePairing::kHalves,
     .normalise_heads = normalise_queries_and_keys,
     .has_branch_norms = true,
     .scales_embedding = true,
     .activation = Activation::kGeluTanh,
     .window_period = 6,
     .local_rope_base = 10000.0f,
     .has_mutual_pictures = true,
     .unlike_scale_layers = 62},
    {.name = "gemma4",
     .pairing = RopePairing::kHalves,
     .normalise_heads = normalise_all_heads,
     .read = read_layer_inputs,
     .has_branch_norms = true,
     .scales_embedding = true,
     .activation = Activation::kGeluTanh,
     .window_period = 6,
     .local_rope_base = 10000.0f},
    {.name = "qwen2vl",
     .pairing = RopePairing::kHalves,
     .read = read_sections,
     .has_qkv_biases = true,
     .pre_tokenizer = "qwen2"},
    {.name = "qwen3vl",
     .pairing = RopePairing::kHalves,
     .normalise_heads = normalise_queries_and_keys,
     .read = read_interleaved_sections,
     .pre_tokenizer = "qwen2"},
    {.name = "cosmos3-edge",
     .pairing = RopePairing::kHalves,
     .read = read_interleaved_sections,
     .has_gate = false,
     .activation = Activation::kSquaredRelu,
     .pre_tokenizer = "tekken"},
    {.name = "mistral3", .read = read_temperature, .pre_tokenizer = "tekken"},
    {.name = "lfm2",
     .pairing = RopePairing::kHalves,
     .normalise_heads = normalise_queries_and_keys,
     .read = read_convolutions,
     .has_convolutions = true,
     .final_norm = "token_embd_norm",
     .pre_tokenizer = "lfm2"},
    {.name = "paddleocr", .pairing = RopePairing::kHalves, .read = read_sections},
};

/// Returns the row of this name; null if there is none.
constexpr const TextArchitecture* find_text_architecture(std::string_view name) {
  for (const TextArchitecture& architecture : kTextArchitectures)
    if (name == architecture.name) return &architecture;
  return nullptr;
}

}  // namespace ocellus
