// GBNF, the grammars of llama.cpp (its grammars/README.md), as grammars over bytes.
//
//   # a list
//   root ::= item ("," item){0,9}
//   item ::= "\"" [^"\n]+ "\"" | [0-9]+
//
// Terminals match characters, not bytes: \xHH is a character, too. `.` and negated classes match line ends, but never
// U+0000. A rule may be used before it is defined; the last definition of a rule holds, as in llama.cpp. Unlike
// llama.cpp, repetitions keep to their counts, and empty classes and ranges in the wrong order are refused.
//
// Tokens, as llama.cpp reads them since February 2026: <think> is the one token whose text is "<think>", angle brackets
// included, <[1000]> the one of that number; !<think> and !<[1000]> are any other one that does not end an answer. A
// token is read as a whole: no characters match it in part. Control tokens are matched in no other way.
//
//   root ::= <think> !</think>* </think> "yes" | "no"
#pragma once

#include <string_view>

#include "platform/status.h"
#include "runtime/branches/constrain/grammar/grammar.h"
#include "runtime/branches/constrain/grammar/token_trie.h"

namespace ocellus {

inline constexpr size_t kMaxGbnfBytes = size_t{1} << 20;
inline constexpr int32_t kMaxGbnfRules = 4096;
inline constexpr int32_t kMaxGbnfRepeat = 100000;
/// Groups nest at most this deep.
inline constexpr int kMaxGbnfGroups = 200;

/// Adds the rules to the grammar; *out is `root`. kBadArgument for what is no GBNF or names no token, kUnsupported for
/// what is larger than the limits above, with line and column, which count from 1, and what to change; kFull after the
/// grammar's memory was spent. `tokens`: of the model; null: a grammar that names tokens is refused. Left recursion is
/// not looked for.
Status read_gbnf(std::string_view text, const TokenTrie* tokens, Grammar* grammar, Expression* out);
inline Status read_gbnf(std::string_view text, Grammar* grammar, Expression* out) {
  return read_gbnf(text, nullptr, grammar, out);
}

}  // namespace ocellus
