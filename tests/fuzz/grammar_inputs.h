// A grammar that is read from an input, and texts of it.
#pragma once

#include "platform/utf8.h"
#include "runtime/branches/constrain/grammar/grammar.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/grammar_sample.h"

namespace ocellus::fuzz {

inline bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    int bytes = 0;
    if (decode_utf8(text, &bytes) == kInvalidCodePoint) return false;
    text.remove_prefix(static_cast<size_t>(bytes));
  }
  return true;
}

/// Reads with read(Grammar*, Expression*) into 1 MiB, and shows some texts to look(text).
template <class Read, class Look>
bool try_grammar(Read read, Look look) {
  static std::vector<uint64_t> memory(size_t{1} << 17);
  Grammar grammar({reinterpret_cast<std::byte*>(memory.data()), 1, static_cast<int64_t>(memory.size()) * 8});
  Expression e = kNoExpression;
  if (!read(&grammar, &e).ok()) {
    require(last_failure().sentence[0] != '\0', "what is refused is refused with a sentence");
    return false;
  }
  require(e != kNoExpression, "what is read is an expression");
  Random random(1);
  for (int i = 0; i < 4; ++i) {
    test::GrammarSample sample(grammar, &random);
    if (!sample.write(e)) continue;
    require(is_utf8(sample.text()), "texts of a grammar are UTF-8");
    look(sample.text());
  }
  return true;
}

}  // namespace ocellus::fuzz
