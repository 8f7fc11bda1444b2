// A grammar with memory of its own, and its reference.
#pragma once

#include <string_view>
#include <vector>

#include "tests/support/grammar_reference.h"

namespace ocellus::test {

struct GrammarRoom {
  explicit GrammarRoom(int64_t bytes = 1 << 20) : memory(static_cast<size_t>(bytes / 8)), grammar(view()) {}
  HostView<std::byte> view() {
    return {reinterpret_cast<std::byte*>(memory.data()), 1, static_cast<int64_t>(memory.size()) * 8};
  }
  bool matches(Expression e, std::string_view text) { return GrammarReference(grammar, text).matches(e); }
  std::vector<uint64_t> memory;
  Grammar grammar;
};

}  // namespace ocellus::test
