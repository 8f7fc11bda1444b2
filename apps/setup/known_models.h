// Public models that can be read, and the one that is nearest to a file that cannot.
#pragma once

#include <string>
#include <vector>

#include "runtime/ocellus.h"

namespace ocellus::app {

// In the order of families.
std::vector<ocellus_known_model> known_models();

// Name of the files' weights, as in "SmolVLM-256M-Instruct".
std::string file_stem(const ocellus_known_model& model);

// The repository that holds both GGUF files, as "OWNER/NAME-GGUF"; empty: none is known, convert the published files.
std::string gguf_repository(const ocellus_known_model& model);

// Says what can be read instead of the file: "`ocellus models` lists ...; the nearest by name is ...".
std::string models_hint(const std::string& path);

}  // namespace ocellus::app
