// The model pair that comes with the program.
#pragma once

#include <string>

namespace ocellus::app {

struct ModelPaths {
  std::string model;
  std::string mmproj;  // empty: text only
};

// Looks in the installation that this program belongs to, then in the source tree it was built from.
ModelPaths find_bundled_models();

}  // namespace ocellus::app
