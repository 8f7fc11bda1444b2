// The model pair that comes with the program.
#ifndef OCELLUS_APPS_BUNDLED_MODELS_H_
#define OCELLUS_APPS_BUNDLED_MODELS_H_

#include <string>

namespace ocellus::app {

struct ModelPaths {
  std::string model;
  std::string mmproj;  // empty: text only
};

// Looks in the installation this program belongs to, then in the source tree it was built from.
ModelPaths find_bundled_models();

}  // namespace ocellus::app

#endif  // OCELLUS_APPS_BUNDLED_MODELS_H_
