#include "apps/setup/bundled_models.h"

#include <filesystem>

#include "apps/base/failure.h"

namespace ocellus::app {

ModelPaths find_bundled_models() {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  const fs::path folders[] = {program.parent_path() / OCELLUS_INSTALLED_MODELS, OCELLUS_SOURCE_MODELS};
  for (const fs::path& folder : folders) {
    const ModelPaths paths = {(folder / "shapeboard-34m-q8_0.gguf").lexically_normal().string(),
                              (folder / "mmproj-shapeboard-34m-q8_0.gguf").lexically_normal().string()};
    if (fs::exists(paths.model, ignored) && fs::exists(paths.mmproj, ignored)) return paths;
  }
  throw Failure(kExitBadInput, "the bundled model is neither in " + folders[0].lexically_normal().string() +
                                   " nor in " + folders[1].string() + ": give one with --model and --mmproj.");
}

}  // namespace ocellus::app
