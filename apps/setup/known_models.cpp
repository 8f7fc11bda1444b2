#include "apps/setup/known_models.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

#include "apps/base/failure.h"
#include "apps/base/usage_error.h"

namespace ocellus::app {
namespace {

// Shorter beginnings of a name say nothing.
constexpr size_t kLeastLikeness = 5;

// Repositories that the documentation of llama.cpp names (docs/multimodal.md); licences from the models' own pages.
constexpr GgufRepository kRepositories[] = {
    {"SmolVLM-256M", "ggml-org/SmolVLM-256M-Instruct-GGUF", "apache-2.0", "Q8_0"},
    {"SmolVLM-500M", "ggml-org/SmolVLM-500M-Instruct-GGUF", "apache-2.0", "Q8_0"},
    {"SmolVLM2-2.2B", "ggml-org/SmolVLM2-2.2B-Instruct-GGUF", "apache-2.0", "Q8_0"},
    {"InternVL3-2B", "ggml-org/InternVL3-2B-Instruct-GGUF", "apache-2.0", "Q8_0"},
    {"Qwen2-VL-2B", "ggml-org/Qwen2-VL-2B-Instruct-GGUF", "apache-2.0", "Q8_0"},
    {"Qwen2-VL-7B", "ggml-org/Qwen2-VL-7B-Instruct-GGUF", "apache-2.0", "Q8_0"},
    {"Qwen2.5-VL-3B", "ggml-org/Qwen2.5-VL-3B-Instruct-GGUF", "qwen-research", "Q8_0"},
    {"Qwen2.5-VL-7B", "ggml-org/Qwen2.5-VL-7B-Instruct-GGUF", "apache-2.0", "Q8_0"},
    {"Gemma3-4B", "ggml-org/gemma-3-4b-it-GGUF", "gemma", "F16"},
    {"Gemma3-12B", "ggml-org/gemma-3-12b-it-GGUF", "gemma", "F16"},
};

std::string letters_and_digits(const std::string& text) {
  std::string kept;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      kept += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return kept;
}

// Length of the longest beginning of `name` that stands in `text`.
size_t likeness(const std::string& text, const std::string& name) {
  size_t longest = 0;
  while (longest < name.size() && text.find(name.substr(0, longest + 1)) != std::string::npos) ++longest;
  return longest;
}

}  // namespace

std::vector<ocellus_known_model> known_models() {
  std::vector<ocellus_known_model> models;
  while (const auto model = get_known_model(static_cast<int32_t>(models.size()))) models.push_back(*model);
  return models;
}

std::string file_stem(const ocellus_known_model& model) {
  const std::string published = model.published;
  return published.substr(published.rfind('/') + 1);
}

const GgufRepository* find_gguf_repository(const ocellus_known_model& model) {
  for (const GgufRepository& known : kRepositories)
    if (model.name == known.model) return &known;
  return nullptr;
}

std::string list_known_models(KnownModels which) {
  std::string names;
  for (const ocellus_known_model& known : known_models())
    if (which == KnownModels::kAll || find_gguf_repository(known) != nullptr)
      names += (names.empty() ? "{" : ",") + std::string(known.name);
  return names + "}";
}

HubName read_hub_name(const std::string& text) {
  if (text.find('/') != std::string::npos) return parse_hub_name(text);
  const std::string name = text.substr(0, text.find(':')), quant = text.substr(name.size()), lower = to_lower(name);
  std::string alike;
  for (const ocellus_known_model& model : known_models()) {
    const GgufRepository* const known = find_gguf_repository(model);
    const std::string one = to_lower(model.name);
    if (one == lower && known != nullptr) return parse_hub_name(std::string(known->repository) + quant);
    if (one == lower)
      throw Failure(kExitUsage, std::string(model.name) +
                                    ": no repository with both GGUF files is known of it; convert " + model.published +
                                    " with tools/convert/hf_to_gguf.py.");
    if (known != nullptr && alike.empty() && !find_alike(lower, {one}).empty()) alike = model.name;
  }
  throw Failure(kExitUsage, shorten(text) + ": no model of this name is known" +
                                (alike.empty() ? "" : " (is " + alike + " meant?)") +
                                "; `ocellus models --published` lists them, and OWNER/NAME names any repository.");
}

std::string models_hint(const std::string& path) {
  const std::string wanted = letters_and_digits(std::filesystem::path(path).filename().string());
  std::string nearest;
  size_t best = kLeastLikeness - 1;
  for (const ocellus_known_model& model : known_models()) {
    const size_t shared = likeness(wanted, letters_and_digits(file_stem(model)));
    if (shared <= best) continue;
    best = shared;
    nearest = model.name;
  }
  return "`ocellus models` lists what can be read" +
         (nearest.empty() ? "." : "; the nearest by name is " + nearest + ".");
}

}  // namespace ocellus::app
