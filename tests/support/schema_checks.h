// Schemas as grammars, and checks of the texts that they have and of how they are refused.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "runtime/branches/constrain/grammar/schema.h"
#include "tests/support/grammar_reference.h"

namespace ocellus::test {

class Schema {
 public:
  explicit Schema(const std::string& text, bool free_space = false, size_t bytes = size_t{4} << 20)
      : workspace_(bytes / 8), memory_(bytes / 8), grammar_(view(memory_)) {
    const Status status = read_schema(text, {.free_space = free_space}, view(workspace_), &grammar_, &all_);
    code_ = status.code();
    if (!status.ok()) sentence_ = last_failure().sentence;
  }

  bool matches(std::string_view text) {
    REQUIRE_MESSAGE(code_ == Code::kOk, sentence_);
    return GrammarReference(grammar_, text).matches(all_);
  }
  Code code() const { return code_; }
  const std::string& sentence() const { return sentence_; }

 private:
  static HostView<std::byte> view(std::vector<uint64_t>& room) {
    return {reinterpret_cast<std::byte*>(room.data()), 1, static_cast<int64_t>(room.size()) * 8};
  }
  std::vector<uint64_t> workspace_, memory_;
  Grammar grammar_;
  Expression all_ = kNoExpression;
  Code code_ = Code::kOk;
  std::string sentence_;
};

using Texts = std::vector<const char*>;

inline void check(const char* schema, const Texts& yes, const Texts& no) {
  Schema all(schema);
  for (const char* text : yes) CHECK_MESSAGE(all.matches(text), schema, " | ", text);
  for (const char* text : no) CHECK_MESSAGE(!all.matches(text), schema, " | ", text);
}

inline void check_failure(const std::string& schema, Code code, const char* sentence) {
  const Schema failed(schema);
  CHECK_MESSAGE(failed.code() == code, schema);
  CHECK(failed.sentence() == sentence);
}
inline void check_refused(const std::string& schema, const char* sentence) {
  check_failure(schema, Code::kUnsupported, sentence);
}
inline void check_rejected(const std::string& schema, const char* sentence) {
  check_failure(schema, Code::kBadArgument, sentence);
}

}  // namespace ocellus::test
