// Opens a vocabulary and builds its tokenizer in memory of the exact planned size. For tests only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "platform/arena.h"
#include "quant/gguf.h"
#include "runtime/vocabulary/tokenizer.h"

namespace ocellus::test {

/// Records rows, and hands out a block of exactly the row's size for each, or nullptr while planning.
class RowRecorder : public RowSink {
 public:
  explicit RowRecorder(bool gives_memory) : gives_memory_(gives_memory) {}
  Status take(const RowSpec& row, std::byte** out) override {
    rows.push_back(row);
    *out = nullptr;
    if (!gives_memory_) return {};
    blocks_.push_back(std::make_unique<std::byte[]>(static_cast<size_t>(row.bytes)));
    *out = blocks_.back().get();
    return {};
  }
  std::vector<RowSpec> rows;

 private:
  bool gives_memory_;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
};

struct LoadedTokenizer {
  Status open(const std::string& path) {
    OCELLUS_TRY(file.open(path.c_str()));
    return build();
  }
  Status parse(const uint8_t* data, int64_t size) {
    OCELLUS_TRY(file.parse(data, size));
    return build();
  }
  /// Plans, builds, then lets the file go.
  Status build() {
    VocabularyFacts facts;
    OCELLUS_TRY(read_vocabulary_facts(file, &facts));
    OCELLUS_TRY(tokenizer.build(file, facts, plan));
    OCELLUS_TRY(tokenizer.build(file, facts, memory));
    file.close();
    return {};
  }

  std::vector<TokenId> encode(std::string_view text, bool parse_special, bool continues = false) const {
    const auto text_bytes = static_cast<int64_t>(text.size());
    std::vector<std::byte> workspace(static_cast<size_t>(Tokenizer::workspace_bytes(text_bytes)));
    std::vector<TokenId> ids(text.size() + 1);
    int64_t count = 0;
    const Status status =
        tokenizer.encode(text, parse_special, workspace.data(), static_cast<int64_t>(workspace.size()), ids.data(),
                         static_cast<int64_t>(ids.size()), &count, continues);
    if (!status.ok()) return {-2};
    ids.resize(static_cast<size_t>(count));
    return ids;
  }
  std::string decode(const std::vector<TokenId>& ids, bool show_special) const {
    std::string text;
    for (const TokenId id : ids) text += tokenizer.piece(id, show_special);
    return text;
  }

  GgufFile file;
  RowRecorder plan{false};
  RowRecorder memory{true};
  Tokenizer tokenizer;
};

}  // namespace ocellus::test
