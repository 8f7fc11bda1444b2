// Which files of a repository are the text model and its vision part: told from their names alone, so that a hub's list
// and a folder of the cache are read alike.
#pragma once

#include <string>
#include <vector>

#include "apps/hub/hub_name.h"

namespace ocellus::app {

struct PairChoice {
  std::vector<std::string> model;  // the file, or the parts of a split model in their order; empty: there is none
  std::string mmproj;              // empty: there is none
  std::string problem;             // says why there is no model, or no single one; empty: there is one

  // All files.
  std::vector<std::string> files() const;
};

// Chooses the model file whose name ends with the quant, before ".gguf" or "-00001-of-00003.gguf". Without a quant:
// Q8_0, then Q4_K_M and others by their quality, then a file that is alone. A file with "mmproj" in its name is a
// vision part: of several, the one with the model's own quant, then Q8_0, F16, BF16 and F32.
PairChoice choose_pair(const std::vector<std::string>& names, const std::string& quant);

}  // namespace ocellus::app
