// The supported text architectures, as data. general.architecture names a row of the table; the row holds all that
// distinguishes the architecture, everything else is in a file's keys and tensors.
#pragma once

#include <string_view>

#include "kernels/rows/rope.h"

namespace ocellus {

struct TextArchitecture {
  const char* name = "";  // general.architecture, and the prefix of keys
  RopePairing pairing = RopePairing::kAdjacent;
  bool has_head_norms = false;  // heads of queries and keys are normalised before rotation
  bool has_own_output = false;  // output.weight is required; otherwise the embedding is used if it is missing
  // Random models only. A file's biases are used if present.
  bool has_qkv_biases = false;
  const char* pre_tokenizer = "smollm";
};

inline constexpr TextArchitecture kTextArchitectures[] = {
    {.name = "llama"},
    {.name = "internlm2", .has_own_output = true},
    {.name = "qwen2", .pairing = RopePairing::kHalves, .has_qkv_biases = true, .pre_tokenizer = "qwen2"},
    {.name = "qwen3", .pairing = RopePairing::kHalves, .has_head_norms = true, .pre_tokenizer = "qwen2"},
};

/// Returns the row of this name; null if there is none.
constexpr const TextArchitecture* find_text_architecture(std::string_view name) {
  for (const TextArchitecture& architecture : kTextArchitectures)
    if (name == architecture.name) return &architecture;
  return nullptr;
}

}  // namespace ocellus
