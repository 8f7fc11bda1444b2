#include "apps/setup/image_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "apps/base/sizes.h"
#include "runtime/ocellus.h"

namespace ocellus::app {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{256} << 20;

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

}  // namespace

std::vector<uint8_t> read_input_file(const std::string& path) {
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
  const std::vector<uint8_t> bytes = read_input_file(path);
  ocellus_image_facts facts;
  check(ocellus_image_probe(bytes.data(), static_cast<int64_t>(bytes.size()), &facts), path);
  return {.path = path,
          .width = facts.width,
          .height = facts.height,
          .whole_pixels = facts.whole_pixels,
          .is_gray16 = facts.is_gray16 != 0};
}

std::vector<ImageFile> probe_images(const std::vector<std::string>& paths) {
  std::vector<ImageFile> images;
  for (const std::string& path : paths) images.push_back(probe_image(path));
  return images;
}

void PictureSize::include(const ImageFile& image) {
  pixels = std::max(pixels, image.pixels());
  whole_pixels = std::max(whole_pixels.value_or(0), image.whole_pixels);
  each.emplace_back(image.width, image.height);
  if (image.is_gray16 && gray16_path.empty()) gray16_path = image.path;
}

void PictureSize::include(const PictureSize& other) {
  pixels = std::max(pixels, other.pixels);
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
  const bool is_larger = size.pixels > options.image_pixels.value_or(size.pixels) ||
                         size.whole_pixels.value_or(0) > options.whole_pixels.value_or(INT64_MAX);
  const Failure failure = library_failure(status, path);
  return status == OCELLUS_BAD_IMAGE && is_larger ? Failure(kExitOverBudget, failure.what()) : failure;
}

}  // namespace ocellus::app
