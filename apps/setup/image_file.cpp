#include "apps/setup/image_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <map>

#include "apps/base/sizes.h"
#include "runtime/ocellus.h"

namespace ocellus::app {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{256} << 20;
constexpr int64_t kMaxHeldBytes = int64_t{32} << 20;

class OpenFile {
 public:
  // Non-blocking, so that a named pipe is refused instead of waited for.
  explicit OpenFile(const std::string& path) : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~OpenFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

// Reads until the end of what was given already open.
std::vector<uint8_t> read_to_end(int descriptor, const std::string& path) {
  std::vector<uint8_t> bytes;
  size_t done = 0;
  for (;;) {
    if (done == bytes.size()) bytes.resize(std::max<size_t>(1 << 16, 2 * done));
    const ssize_t count = read(descriptor, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw file_failure(path, "it cannot be read");
    if (count == 0) break;
    done += static_cast<size_t>(count);
    if (done > static_cast<size_t>(kMaxFileBytes))
      throw Failure(kExitBadInput,
                    path + ": it has more than the " + format_mib(kMaxFileBytes) + " MiB that are read.");
  }
  if (done == 0) throw Failure(kExitBadInput, path + ": it has no bytes.");
  bytes.resize(done);
  return bytes;
}

// Bytes come through a descriptor once, but it may be given more than once.
const std::vector<uint8_t>& read_descriptor(int descriptor, const std::string& path) {
  static std::map<int, std::vector<uint8_t>> kept;
  const auto known = kept.find(descriptor);
  if (known != kept.end()) return known->second;
  if (isatty(descriptor) != 0)
    throw Failure(kExitBadInput, path +
                                     ": this is a terminal; give the file through a pipe, as in `cat photo.jpg | "
                                     "ocellus caption -`.");
  return kept.emplace(descriptor, read_to_end(descriptor, path)).first->second;
}

}  // namespace

std::optional<int> open_descriptor(const std::string& path) {
  if (path == "-" || path == "/dev/stdin") return STDIN_FILENO;
  for (const std::string folder : {"/dev/fd/", "/proc/self/fd/"}) {
    int descriptor = -1;
    const char* const end = path.data() + path.size();
    if (path.starts_with(folder) && path.size() > folder.size() &&
        std::from_chars(path.data() + folder.size(), end, descriptor).ptr == end)
      return descriptor;
  }
  return std::nullopt;
}

std::vector<uint8_t> read_input_file(const std::string& path) {
  if (const std::optional<int> descriptor = open_descriptor(path)) {
    struct stat given;
    const bool is_file = fstat(*descriptor, &given) == 0 && (S_ISREG(given.st_mode) || S_ISDIR(given.st_mode));
    if (!is_file) return read_descriptor(*descriptor, path);
    if (path == "-") return read_input_file("/dev/stdin");
  }
  const OpenFile file(path);
  if (file.descriptor() < 0) throw file_failure(path, "the file cannot be opened");
  struct stat facts;
  if (fstat(file.descriptor(), &facts) != 0) throw file_failure(path, "the file cannot be examined");
  if (S_ISDIR(facts.st_mode)) throw Failure(kExitBadInput, path + ": this is a directory, a file is needed.");
  if (!S_ISREG(facts.st_mode)) throw Failure(kExitBadInput, path + ": this is not a regular file.");
  if (facts.st_size == 0) throw Failure(kExitBadInput, path + ": the file is empty.");
  if (facts.st_size > kMaxFileBytes) {
    throw Failure(kExitBadInput, path + ": the file has " + format_bytes(facts.st_size) + ", more than the " +
                                     format_mib(kMaxFileBytes) + " MiB that are read.");
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(facts.st_size));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = read(file.descriptor(), bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw file_failure(path, "the file cannot be read");
    if (count == 0) throw Failure(kExitBadInput, path + ": the file became shorter while it was read.");
    done += static_cast<size_t>(count);
  }
  return bytes;
}

ImageFile probe_image(const std::string& path) {
  auto read = std::make_shared<Frame>();
  read->bytes = read_input_file(path);
  const ocellus_image_facts facts = take(ocellus::probe_image(read->bytes), path);
  read->width = facts.width;
  read->height = facts.height;
  return {.path = path,
          .read = std::move(read),
          .width = facts.width,
          .height = facts.height,
          .whole_pixels = facts.whole_pixels,
          .is_gray16 = facts.is_gray16 != 0};
}

std::vector<ImageFile> probe_images(const std::vector<std::string>& paths) {
  std::vector<ImageFile> images;
  int64_t kept_bytes = 0;
  for (const std::string& path : paths) {
    images.push_back(probe_image(path));
    kept_bytes += std::ssize(images.back().read->bytes);
    if (kept_bytes > kMaxHeldBytes) images.back().read = nullptr;
  }
  return images;
}

std::shared_ptr<Frame> read_image(const ImageFile& image) {
  if (image.read != nullptr) return image.read;
  auto read = std::make_shared<Frame>();
  read->bytes = read_input_file(image.path);
  read->width = image.width;
  read->height = image.height;
  return read;
}

void PictureSize::include(const ImageFile& image) {
  pixels = std::max(pixels, image.pixels());
  side = std::max({side, image.width, image.height});
  whole_pixels = std::max(whole_pixels.value_or(0), image.whole_pixels);
  each.emplace_back(image.width, image.height);
  if (image.is_gray16 && gray16_path.empty()) gray16_path = image.path;
}

void PictureSize::include(const PictureSize& other) {
  pixels = std::max(pixels, other.pixels);
  side = std::max(side, other.side);
  if (other.whole_pixels) whole_pixels = std::max(whole_pixels.value_or(0), *other.whole_pixels);
  each.insert(each.end(), other.each.begin(), other.each.end());
  if (gray16_path.empty()) gray16_path = other.gray16_path;
}

PictureSize largest_size(const std::vector<ImageFile>& images) {
  PictureSize largest;
  for (const ImageFile& image : images) largest.include(image);
  return largest;
}

Failure picture_failure(ocellus_status status, const std::string& path, const PictureSize& size,
                        const CommonOptions& options) {
  const bool is_larger = size.pixels > options.pictures.pixels.value_or(size.pixels) ||
                         size.side > options.pictures.side.value_or(size.side) ||
                         size.whole_pixels.value_or(0) > options.pictures.whole_pixels.value_or(INT64_MAX);
  const Failure failure = library_failure(status, path);
  return status == OCELLUS_BAD_IMAGE && is_larger ? Failure(kExitOverBudget, failure.what()) : failure;
}

}  // namespace ocellus::app
