// A file that is written under a temporary name, beside the one that it is to get.
#pragma once

#include <cstdint>
#include <string>

namespace ocellus::app {

// Removes the temporary file at its end, unless that has been renamed by then. Failures are kept: see error().
class PartialFile {
 public:
  explicit PartialFile(std::string path);
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  // Returns false if the system refused.
  bool append(const void* bytes, int64_t count);
  // Writes everything to the disk and closes the file.
  void finish();

  // The first failure's errno; 0: none.
  int error() const { return error_; }
  const std::string& path() const { return path_; }
  const std::string& temporary() const { return temporary_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::string path_, temporary_;
  int descriptor_;
  bool is_made_;  // else a file of that name is another's
  int error_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace ocellus::app
