// A regular file that is read by position and never mapped: if it is truncated or overwritten meanwhile, reads fail
// instead of raising a signal or mixing bytes of two versions.
#pragma once

#include <sys/stat.h>

#include <cstdint>

#include "platform/status.h"

namespace ocellus {

class InputFile {
 public:
  InputFile() = default;
  ~InputFile() { close(); }
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  /// kBadFile: missing, unreadable, a directory, empty, not a regular file; kIo: the system refused.
  Status open(const char* path);
  void close();

  bool is_open() const { return descriptor_ >= 0; }
  /// Size when it was opened.
  int64_t size() const { return facts_.st_size; }

  /// Reads bytes [offset, offset + count). kBadFile if the file has changed since it was opened, before or during the
  /// call: bytes of successful calls are all of one version. kIo if it cannot be read.
  Status read_at(int64_t offset, void* out, int64_t count) const;

  /// kBadFile if the size or the time of the last change differs from when the file was opened. Removing the file or
  /// renaming another one over it changes neither: it stays readable here.
  Status check_unchanged() const;

 private:
  int descriptor_ = -1;
  struct stat facts_ = {};
};

}  // namespace ocellus
