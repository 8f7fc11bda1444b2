#include "platform/file_map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace ocellus {

FileMap::FileMap(FileMap&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

FileMap& FileMap::operator=(FileMap&& other) noexcept {
  if (this != &other) {
    close();
    descriptor_ = std::exchange(other.descriptor_, -1);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

Status FileMap::open(const char* path) {
  close();
  // O_NONBLOCK: opening a named pipe must not wait for a writer; it is refused below.
  descriptor_ = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) return OCELLUS_FAIL(Code::kBadFile, "cannot open %s: %s", path, std::strerror(errno));
  struct stat facts {};
  if (::fstat(descriptor_, &facts) != 0) {
    const int error = errno;
    close();
    return OCELLUS_FAIL(Code::kIo, "cannot examine %s: %s", path, std::strerror(error));
  }
  const char* problem = S_ISDIR(facts.st_mode)    ? "is a directory, not a file"
                        : !S_ISREG(facts.st_mode) ? "is not a regular file"
                        : facts.st_size == 0      ? "is empty"
                                                  : nullptr;
  if (problem != nullptr) {
    close();
    return OCELLUS_FAIL(Code::kBadFile, "%s %s", path, problem);
  }
  void* mapped = ::mmap(nullptr, static_cast<size_t>(facts.st_size), PROT_READ, MAP_PRIVATE, descriptor_, 0);
  if (mapped == MAP_FAILED) {
    const int error = errno;
    close();
    return OCELLUS_FAIL(Code::kIo, "cannot map %s: %s", path, std::strerror(error));
  }
  data_ = static_cast<const uint8_t*>(mapped);
  size_ = facts.st_size;
  return {};
}

void FileMap::close() {
  if (data_ != nullptr) ::munmap(const_cast<uint8_t*>(data_), static_cast<size_t>(size_));
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
  data_ = nullptr;
  size_ = 0;
}

Status FileMap::read_at(int64_t offset, void* out, int64_t count) const {
  constexpr int64_t kPiece = int64_t{8} << 20;
  char* to = static_cast<char*>(out);
  while (count > 0) {
    const ssize_t got = ::pread(descriptor_, to, static_cast<size_t>(std::min(count, kPiece)), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return OCELLUS_FAIL(Code::kIo, "reading failed: %s", std::strerror(errno));
    if (got == 0) return OCELLUS_FAIL(Code::kIo, "the file became shorter while it was read");
    offset += got;
    to += got;
    count -= got;
  }
  return {};
}

}  // namespace ocellus
