// Public models that can be read, and the one that is nearest to a file that cannot.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/hub/hub_name.h"
#include "runtime/ocellus.h"

namespace ocellus::app {

// In the order of families.
std::vector<ocellus_known_model> known_models();

// Name of the files' weights, as in "SmolVLM-256M-Instruct".
std::string file_stem(const ocellus_known_model& model);

// A repository that holds both GGUF files.
struct GgufRepository {
  std::string_view model;          // name of the known model
  std::string_view repository;     // "OWNER/NAME-GGUF"
  std::string_view licence;        // identifier on the page of the model that was converted
  std::string_view mmproj_format;  // the vision part that comes with Q8_0 and Q4_K_M
};

// nullptr: none is known, convert the published files.
const GgufRepository* find_gguf_repository(const ocellus_known_model& model);

// The names of known models, as the type of a flag, which completions read: "{SmolVLM-256M,SmolVLM-500M}".
enum class KnownModels { kAll, kPublished };
std::string list_known_models(KnownModels which);

// Reads what -hf and `ocellus pull` take: OWNER/NAME[:QUANT], or a known model's name in any case, with or without
// :QUANT. Throws a Failure (bad usage) for others, with the name that is nearest.
HubName read_hub_name(const std::string& text);

// Says what can be read instead of the file: "`ocellus models` lists ...; the nearest by name is ...".
std::string models_hint(const std::string& path);

}  // namespace ocellus::app
