// Names of models on a hub: what users write, and what a hub writes of files.
#pragma once

#include <string>
#include <string_view>

namespace ocellus::app {

// "OWNER/NAME" or "OWNER/NAME:QUANT".
struct HubName {
  std::string repository;  // "ggml-org/SmolVLM-256M-Instruct-GGUF"
  std::string quant;       // end of the model file's name, "Q4_K_M", in any case; empty: the best there is

  // As users write it.
  std::string text() const { return repository + (quant.empty() ? "" : ":" + quant); }
};

// Throws a Failure (bad usage) unless the repository's name is one that hubs give: letters, digits, '-', '_' and '.',
// at most 96, which makes it a folder's name as well.
HubName parse_hub_name(const std::string& text);

// True for a file's path inside its repository: relative, without "..", empty parts, backslashes and control
// characters.
bool is_safe_path(std::string_view path);

inline constexpr size_t kSha1Digits = 40, kSha256Digits = 64;

// True for a commit, or the name of a blob: `digits` hexadecimal digits in lower case.
bool is_hex(std::string_view text, size_t digits);

}  // namespace ocellus::app
