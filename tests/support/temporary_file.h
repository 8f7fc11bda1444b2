// GGUF files in the folder of temporary files that go when their objects do.
#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>

#include "tests/support/gguf_builder.h"

namespace ocellus::test {

class TemporaryFile {
 public:
  explicit TemporaryFile(const GgufBuilder& builder) : path_(unused_path()) { builder.write(path_); }
  /// A copy that can be changed.
  explicit TemporaryFile(const std::string& original) : path_(unused_path()) {
    std::filesystem::copy_file(original, path_);
    std::filesystem::permissions(path_, std::filesystem::perms::owner_write, std::filesystem::perm_options::add);
  }
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }
  const char* c_str() const { return path_.c_str(); }

 private:
  static std::string unused_path() {
    static std::atomic<int> count{0};
    const std::string name = "ocellus-test-" + std::to_string(::getpid()) + "-" + std::to_string(count++) + ".gguf";
    return (std::filesystem::temp_directory_path() / name).string();
  }
  std::string path_;
};

}  // namespace ocellus::test
