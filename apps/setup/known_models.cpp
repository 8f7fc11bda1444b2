#include "apps/setup/known_models.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

namespace ocellus::app {
namespace {

// Shorter beginnings of a name say nothing.
constexpr size_t kLeastLikeness = 5;

// Repositories that the documentation of llama.cpp names (docs/multimodal.md).
struct GgufRepository {
  std::string_view model, repository;
};
constexpr GgufRepository kRepositories[] = {
    {"SmolVLM-256M", "ggml-org/SmolVLM-256M-Instruct-GGUF"},
    {"SmolVLM-500M", "ggml-org/SmolVLM-500M-Instruct-GGUF"},
    {"SmolVLM2-2.2B", "ggml-org/SmolVLM2-2.2B-Instruct-GGUF"},
    {"InternVL3-2B", "ggml-org/InternVL3-2B-Instruct-GGUF"},
    {"Qwen2-VL-2B", "ggml-org/Qwen2-VL-2B-Instruct-GGUF"},
    {"Qwen2-VL-7B", "ggml-org/Qwen2-VL-7B-Instruct-GGUF"},
    {"Qwen2.5-VL-3B", "ggml-org/Qwen2.5-VL-3B-Instruct-GGUF"},
    {"Qwen2.5-VL-7B", "ggml-org/Qwen2.5-VL-7B-Instruct-GGUF"},
    {"Gemma3-4B", "ggml-org/gemma-3-4b-it-GGUF"},
    {"Gemma3-12B", "ggml-org/gemma-3-12b-it-GGUF"},
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
  ocellus_known_model model;
  while (ocellus_known_model_get(static_cast<int32_t>(models.size()), &model) == OCELLUS_OK) models.push_back(model);
  return models;
}

std::string file_stem(const ocellus_known_model& model) {
  const std::string published = model.published;
  return published.substr(published.rfind('/') + 1);
}

std::string gguf_repository(const ocellus_known_model& model) {
  for (const GgufRepository& known : kRepositories)
    if (model.name == known.model) return std::string(known.repository);
  return "";
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
