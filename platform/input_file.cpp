#include "platform/input_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace ocellus {
namespace {

/// True if the system lacks a resource, so that the file is not at fault.
bool is_refusal(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM || error == EIO; }

Status fail_changed() {
  return OCELLUS_FAIL(Code::kBadFile,
                      "the file changed while it was in use: start again when it is complete, and replace model files "
                      "by renaming (mv), which is safe");
}

}  // namespace

InputFile::InputFile(InputFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), facts_(std::exchange(other.facts_, {})) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  if (this != &other) {
    close();
    descriptor_ = std::exchange(other.descriptor_, -1);
    facts_ = std::exchange(other.facts_, {});
  }
  return *this;
}

Status InputFile::open(const char* path) {
  close();
  // O_NONBLOCK: opening a named pipe must not wait for a writer; it is refused below.
  descriptor_ = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0)
    return OCELLUS_FAIL(is_refusal(errno) ? Code::kIo : Code::kBadFile, "cannot open %s: %s", path,
                        std::strerror(errno));
  if (::fstat(descriptor_, &facts_) != 0) {
    const int error = errno;
    close();
    return OCELLUS_FAIL(Code::kIo, "cannot examine %s: %s", path, std::strerror(error));
  }
  const char* problem = S_ISDIR(facts_.st_mode)    ? "is a directory, not a file"
                        : !S_ISREG(facts_.st_mode) ? "is not a regular file"
                        : facts_.st_size == 0      ? "is empty"
                                                   : nullptr;
  if (problem == nullptr) return {};
  close();
  return OCELLUS_FAIL(Code::kBadFile, "%s %s", path, problem);
}

void InputFile::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
  facts_ = {};
}

Status InputFile::read_at(int64_t offset, void* out, int64_t count) const {
  constexpr int64_t kPiece = int64_t{8} << 20;
  char* to = static_cast<char*>(out);
  while (count > 0) {
    const ssize_t got = ::pread(descriptor_, to, static_cast<size_t>(std::min(count, kPiece)), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return OCELLUS_FAIL(Code::kIo, "reading failed: %s", std::strerror(errno));
    if (got == 0) return fail_changed();
    offset += got;
    to += got;
    count -= got;
  }
  return check_unchanged();
}

Status InputFile::check_unchanged() const {
  struct stat now = {};
  if (::fstat(descriptor_, &now) != 0) return OCELLUS_FAIL(Code::kIo, "examining failed: %s", std::strerror(errno));
  const bool same = now.st_size == facts_.st_size && now.st_mtim.tv_sec == facts_.st_mtim.tv_sec &&
                    now.st_mtim.tv_nsec == facts_.st_mtim.tv_nsec;
  return same ? Status() : fail_changed();
}

}  // namespace ocellus
