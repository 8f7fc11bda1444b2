#include "tests/fuzz/fuzz_target.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace ocellus::fuzz {
namespace {

std::vector<Target>& registered() {
  static std::vector<Target> targets;
  return targets;
}

}  // namespace

Registration::Registration(const Target& target) { registered().push_back(target); }

std::vector<Target> all_targets() {
  std::vector<Target> targets = registered();
  std::sort(targets.begin(), targets.end(),
            [](const Target& a, const Target& b) { return std::string_view(a.name) < b.name; });
  return targets;
}

const Target* find_target(std::string_view name) {
  for (const Target& target : registered())
    if (name == target.name) return &target;
  return nullptr;
}

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

std::string temporary_path(const char* name) {
  const std::filesystem::path memory = "/dev/shm";
  const bool has_memory = std::filesystem::is_directory(memory);
  const std::filesystem::path folder = has_memory ? memory : std::filesystem::temp_directory_path();
  return (folder / ("ocellus-fuzz-" + std::string(name) + "-" + std::to_string(::getpid()))).string();
}

Bytes read_source_file(const char* path) {
  std::ifstream file(std::string(OCELLUS_SOURCE_DIR) + "/" + path, std::ios::binary);
  require(file.is_open(), path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace ocellus::fuzz
