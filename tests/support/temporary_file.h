// GGUF files in the folder of temporary files that go when their objects do.
#pragma once

#include <string>

#include "tests/support/gguf_builder.h"

namespace ocellus::test {

class TemporaryFile {
 public:
  explicit TemporaryFile(const GgufBuilder& builder);
  /// A copy that can be changed.
  explicit TemporaryFile(const std::string& original);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }
  const char* c_str() const { return path_.c_str(); }

 private:
  std::string path_;
};

}  // namespace ocellus::test
