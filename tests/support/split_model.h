// A model split into files as llama.cpp's gguf-split writes them, in a folder of its own.
#pragma once

#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/gguf_builder.h"

namespace ocellus::test {

/// The parts of a model, with `tensor_counts[i]` tensors in part i: metadata in the first, the keys of a split in all.
inline std::vector<GgufBuilder> split_parts(const GgufBuilder& whole, const std::vector<size_t>& tensor_counts) {
  std::vector<GgufBuilder> parts(tensor_counts.size());
  parts.front().entries = whole.entries;
  parts.front().alignment = whole.alignment;
  size_t used = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    parts[i].add_u16("split.no", static_cast<uint16_t>(i));
    parts[i].add_u16("split.count", static_cast<uint16_t>(parts.size()));
    parts[i].add_i32("split.tensors.count", static_cast<int32_t>(whole.tensors.size()));
    for (size_t k = 0; k < tensor_counts[i]; ++k) parts[i].tensors.push_back(whole.tensors.at(used++));
  }
  if (used != whole.tensors.size()) throw std::logic_error("not all tensors have a part");
  return parts;
}

class SplitModel {
 public:
  explicit SplitModel(const std::vector<GgufBuilder>& parts) : SplitModel(parts, parts.size()) {}
  /// `named_count` stands in the names.
  SplitModel(const std::vector<GgufBuilder>& parts, size_t named_count) : named_count_(named_count) {
    if (::mkdtemp(folder_.data()) == nullptr) throw std::runtime_error("no temporary folder");
    for (size_t i = 0; i < parts.size(); ++i) parts[i].write(path(i));
  }
  ~SplitModel() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  SplitModel(const SplitModel&) = delete;
  SplitModel& operator=(const SplitModel&) = delete;

  /// Path of part `index`, which is counted from 0; the names count from 1.
  std::string path(size_t index = 0) const { return folder_ + "/" + name(index); }
  std::string name(size_t index) const {
    char text[64];
    std::snprintf(text, sizeof text, "m-%05zu-of-%05zu.gguf", index + 1, named_count_);
    return text;
  }

 private:
  std::string folder_ = (std::filesystem::temp_directory_path() / "ocellus-split-XXXXXX").string();
  size_t named_count_;
};

}  // namespace ocellus::test
