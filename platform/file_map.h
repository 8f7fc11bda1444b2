// A file mapped read-only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "platform/status.h"

namespace ocellus {

class FileMap {
 public:
  FileMap() = default;
  ~FileMap() { close(); }
  FileMap(FileMap&& other) noexcept;
  FileMap& operator=(FileMap&& other) noexcept;
  FileMap(const FileMap&) = delete;
  FileMap& operator=(const FileMap&) = delete;

  /// Maps a whole regular file. kBadFile: missing, a directory, empty, not a regular file; kIo: the system refused.
  Status open(const char* path);
  void close();

  const uint8_t* data() const { return data_; }
  int64_t size() const { return size_; }

  /// Reads bytes [offset, offset + count) into memory without going through the mapping, so that the pages do not
  /// count twice as resident. kIo if the file shrank or cannot be read.
  Status read_at(int64_t offset, void* out, int64_t count) const;

 private:
  int descriptor_ = -1;
  const uint8_t* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace ocellus
