#include "apps/base/partial_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace ocellus::app {

PartialFile::PartialFile(std::string path)
    : path_(std::move(path)),
      temporary_(path_ + "." + std::to_string(::getpid())),
      descriptor_(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)),
      is_made_(descriptor_ >= 0) {
  if (!is_made_) error_ = errno;
}

PartialFile::~PartialFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (is_made_) ::unlink(temporary_.c_str());
}

bool PartialFile::append(const void* bytes, int64_t count) {
  const char* from = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t written = ::write(descriptor_, from, static_cast<size_t>(count));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      error_ = written < 0 ? errno : ENOSPC;
      return false;
    }
    from += written;
    count -= written;
    bytes_ += written;
  }
  return true;
}

void PartialFile::finish() {
  if (error_ == 0 && ::fsync(descriptor_) != 0) error_ = errno;
  if (::close(std::exchange(descriptor_, -1)) != 0 && error_ == 0) error_ = errno;
}

}  // namespace ocellus::app
