// GBNF, the grammars of llama.cpp (its grammars/README.md), as grammars over bytes.
//
//   # a list
//   root ::= item ("," item){0,9}
//   item ::= "\"" [^"\n]+ "\"" | [0-9]+
//
// Terminals match characters, not bytes: \xHH is a character, too. `.` and negated classes match line ends, but never
// U+0000. A rule may be used before it is defined; the last definition of a rule holds, as in llama.cpp. References to
// tokens, <...> and !<...>, are refused. Unlike llama.cpp, repetitions keep to their counts, and empty classes and
// ranges in the wrong order are refused.
#pragma once

#include <string_view>

#include "platform/status.h"
#include "runtime/grammar/grammar.h"

namespace ocellus {

inline constexpr size_t kMaxGbnfBytes = size_t{1} << 20;
inline constexpr int32_t kMaxGbnfRules = 4096;
inline constexpr int32_t kMaxGbnfRepeat = 100000;
/// Groups nest at most this deep.
inline constexpr int kMaxGbnfGroups = 200;

/// Adds the rules to the grammar; *out is `root`. kBadArgument for what is no GBNF, kUnsupported for what is larger
/// than the limits above and for tokens, with line and column, which count from 1, and what to change; kFull after the
/// grammar's memory was spent. Left recursion is not looked for.
Status read_gbnf(std::string_view text, Grammar* grammar, Expression* out);

}  // namespace ocellus
