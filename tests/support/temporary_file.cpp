#include "tests/support/temporary_file.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <system_error>

namespace ocellus::test {
namespace {

std::string unused_path() {
  static std::atomic<int> count{0};
  const std::string name = "ocellus-test-" + std::to_string(::getpid()) + "-" + std::to_string(count++) + ".gguf";
  return (std::filesystem::temp_directory_path() / name).string();
}

}  // namespace

TemporaryFile::TemporaryFile(const GgufBuilder& builder) : path_(unused_path()) { builder.write(path_); }

TemporaryFile::TemporaryFile(const std::string& original) : path_(unused_path()) {
  std::filesystem::copy_file(original, path_);
  std::filesystem::permissions(path_, std::filesystem::perms::owner_write, std::filesystem::perm_options::add);
}

TemporaryFile::~TemporaryFile() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

}  // namespace ocellus::test
