#include "apps/camera/frame_source.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "apps/camera/directory_source.h"
#include "apps/camera/picture_decode.h"
#include "apps/camera/posted_source.h"
#include "apps/camera/stream_source.h"
#include "apps/camera/synthetic_source.h"
#include "apps/camera/v4l2_source.h"
#include "apps/failure.h"

namespace ocellus::app {
namespace {

constexpr double kLeastRate = 0.001, kMostRate = 100'000;

bool is_png_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<uint8_t> start(8);
  return file.read(reinterpret_cast<char*>(start.data()), 8) && is_png(start);
}

}  // namespace

std::unique_ptr<FrameSource> open_source(const SourceOptions& options) {
  if (options.frames_per_second != 0 &&
      !(options.frames_per_second >= kLeastRate && options.frames_per_second <= kMostRate)) {
    throw Failure(kExitUsage, "A source gives 0.001 to 100000 frames a second.");
  }
  if (options.name == "synthetic") return std::make_unique<SyntheticSource>(options);
  if (options.name == "browser") return std::make_unique<PostedSource>(options);
  if (options.name == "-") return std::make_unique<StreamSource>(options);
  struct stat facts;
  if (stat(options.name.c_str(), &facts) != 0) {
    throw Failure(kExitBadInput, options.name + ": the source cannot be opened: " + std::strerror(errno) + ".");
  }
  if (S_ISDIR(facts.st_mode)) return std::make_unique<DirectorySource>(options);
  if (S_ISCHR(facts.st_mode)) return std::make_unique<V4l2Source>(options);
  if (S_ISFIFO(facts.st_mode)) return std::make_unique<StreamSource>(options);
  if (S_ISREG(facts.st_mode) && options.format.empty() && is_png_file(options.name)) {
    return std::make_unique<DirectorySource>(options);
  }
  if (S_ISREG(facts.st_mode)) return std::make_unique<StreamSource>(options);
  throw Failure(kExitBadInput, options.name + ": this is no camera, directory, file or pipe.");
}

}  // namespace ocellus::app
