#include "apps/camera/frame_source.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "apps/camera/directory_source.h"
#include "apps/camera/synthetic_source.h"
#include "apps/failure.h"

namespace ocellus {

std::unique_ptr<FrameSource> open_source(const SourceOptions& options) {
  if (options.name == "synthetic") return std::make_unique<SyntheticSource>(options);
  struct stat facts;
  if (stat(options.name.c_str(), &facts) != 0) {
    throw Failure(kExitBadInput, options.name + ": the source cannot be opened: " + std::strerror(errno) + ".");
  }
  if (S_ISDIR(facts.st_mode)) return std::make_unique<DirectorySource>(options);
  throw Failure(kExitBadInput, options.name + ": this is no camera, directory, file or pipe.");
}

}  // namespace ocellus
