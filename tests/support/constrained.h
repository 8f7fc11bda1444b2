// A vocabulary and a constraint over it, for tests.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "runtime/branches/constrain/grammar/constraint.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/random.h"
#include "tests/support/tokenizer_loader.h"

namespace ocellus::test {

/// A byte-level vocabulary: all bytes, then the given texts, control tokens, and an end token.
struct ByteVocabulary {
  explicit ByteVocabulary(const std::vector<std::string>& texts = {}, const std::string& left_out = "",
                          const std::vector<std::string>& control = {}) {
    std::vector<std::string> tokens;
    std::vector<int32_t> kinds;
    for (int byte = 0; byte < 256; ++byte)
      if (left_out.find(static_cast<char>(byte)) == std::string::npos) tokens.push_back(spelled(byte));
    for (const std::string& text : texts) {
      std::string spelling;
      for (const char c : text) spelling += spelled(static_cast<uint8_t>(c));
      tokens.push_back(spelling);
    }
    tokens.emplace_back("xy");  // a vocabulary has a merge
    kinds.assign(tokens.size(), 1);
    tokens.insert(tokens.end(), control.begin(), control.end());
    kinds.resize(tokens.size(), 3);
    tokens.emplace_back("<|im_end|>");
    kinds.push_back(3);
    GgufBuilder builder;
    builder.add_string("tokenizer.ggml.model", "gpt2");
    builder.add_string("tokenizer.ggml.pre", "gpt-2");
    builder.add_string_array("tokenizer.ggml.tokens", tokens);
    builder.add_i32_array("tokenizer.ggml.token_type", kinds);
    builder.add_string_array("tokenizer.ggml.merges", {"x y"});
    ExactBytes bytes(builder.build());
    REQUIRE_MESSAGE(loaded.parse(bytes.data(), bytes.size()).ok(), last_failure().sentence);
    end = static_cast<TokenId>(tokens.size() - 1);
    REQUIRE(trie.build(loaded.tokenizer, rows).ok());
    REQUIRE(matcher.lay_out(rows).ok());
  }

  /// The byte-level spelling of GPT-2: printable bytes stand for themselves, others for characters from 256 on.
  static std::string spelled(int byte) {
    int character = byte, others = 0;
    for (int b = 0; b <= byte; ++b) {
      const bool stays = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      if (b == byte) character = stays ? b : 256 + others;
      others += stays ? 0 : 1;
    }
    if (character < 0x80) return {static_cast<char>(character)};
    return {static_cast<char>(0xC0 | character >> 6), static_cast<char>(0x80 | (character & 0x3F))};
  }

  LoadedTokenizer loaded;
  RowRecorder rows{true};
  TokenTrie trie;
  Matcher matcher;
  TokenId end = kNoToken;
};

/// A grammar and what it is compiled to, in one memory as in an engine.
struct CompiledText {
  explicit CompiledText(int64_t bytes = 4 << 20, StepMeter* meter = nullptr)
      : memory(static_cast<size_t>(bytes / 8)), grammar({data() + bytes / 3 * 2 / 8 * 8, 1, bytes / 3}, meter) {}
  std::byte* data() { return reinterpret_cast<std::byte*>(memory.data()); }
  Status compile(Expression start, const TokenTrie& tokens) {
    OCELLUS_TRY(grammar.status());
    return constraint.compile(grammar, start, tokens, {data(), 1, static_cast<int64_t>(memory.size()) * 8});
  }

  std::vector<uint64_t> memory;
  Grammar grammar;
  Constraint constraint;
};

}  // namespace ocellus::test
