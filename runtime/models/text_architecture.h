// The supported text architectures, as data. general.architecture names a row of the table; the row holds all that
// distinguishes the architecture, everything else is in a file's keys and tensors.
#pragma once

#include <string_view>

#include "kernels/linear/matmul.h"
#include "kernels/rows/rope.h"

namespace ocellus {

struct TextArchitecture {
  const char* name = "";  // general.architecture, and the prefix of keys
  RopePairing pairing = RopePairing::kAdjacent;
  bool has_head_norms = false;          // heads of queries and keys are normalised before rotation
  bool has_own_output = false;          // output.weight is required; otherwise the embedding is used if it is missing
  bool has_branch_norms = false;        // outputs of attention and MLP are normalised before they are added to the rows
  bool scales_embedding = false;        // embeddings of tokens are multiplied by sqrt(D)
  Activation gate = Activation::kSilu;  // activation of the MLP's gate
  // Every period-th layer sees all positions, the others those of attention.sliding_window, if a file has no
  // attention.sliding_window_pattern. 0: there is no such pattern, and the window limits the context.
  int32_t window_period = 0;
  float local_rope_base = 0;         // base of layers with a window; their positions are not scaled
  bool has_mutual_pictures = false;  // rows of a picture see each other
  bool normalises_values = false;    // heads of values are normalised, too, without weights
  bool has_plain_scores = false;     // scores of attention are not divided by sqrt(E)
  bool has_layer_inputs = false;     // see LayerInputs
  int32_t unlike_scale_layers = 0;   // a model of this size scales scores by another number than 1 / sqrt(E)
  bool has_sections = false;         // positions have three coordinates: rope.dimension_sections is required
  bool interleaves_sections = false;
  // Random models only. A file's biases are used if present.
  bool has_qkv_biases = false;
  const char* pre_tokenizer = "smollm";
};

inline constexpr TextArchitecture kTextArchitectures[] = {
    {.name = "llama"},
    {.name = "internlm2", .has_own_output = true},
    {.name = "qwen2", .pairing = RopePairing::kHalves, .has_qkv_biases = true, .pre_tokenizer = "qwen2"},
    {.name = "qwen3", .pairing = RopePairing::kHalves, .has_head_norms = true, .pre_tokenizer = "qwen2"},
    {.name = "gemma3",
     .pairing = RopePairing::kHalves,
     .has_head_norms = true,
     .has_branch_norms = true,
     .scales_embedding = true,
     .gate = Activation::kGeluTanh,
     .window_period = 6,
     .local_rope_base = 10000.0f,
     .has_mutual_pictures = true,
     .unlike_scale_layers = 62},
    {.name = "gemma4",
     .pairing = RopePairing::kHalves,
     .has_head_norms = true,
     .has_branch_norms = true,
     .scales_embedding = true,
     .gate = Activation::kGeluTanh,
     .window_period = 6,
     .local_rope_base = 10000.0f,
     .normalises_values = true,
     .has_plain_scores = true,
     .has_layer_inputs = true},
    {.name = "qwen2vl",
     .pairing = RopePairing::kHalves,
     .has_sections = true,
     .has_qkv_biases = true,
     .pre_tokenizer = "qwen2"},
    {.name = "qwen3vl",
     .pairing = RopePairing::kHalves,
     .has_head_norms = true,
     .has_sections = true,
     .interleaves_sections = true,
     .pre_tokenizer = "qwen2"},
};

/// Returns the row of this name; null if there is none.
constexpr const TextArchitecture* find_text_architecture(std::string_view name) {
  for (const TextArchitecture& architecture : kTextArchitectures)
    if (name == architecture.name) return &architecture;
  return nullptr;
}

}  // namespace ocellus
