// Compiling: a grammar becomes the tables of an automaton, in the memory of a constraint.
#pragma once

#include "runtime/branches/constrain/grammar/automaton.h"
#include "runtime/branches/constrain/grammar/growing_array.h"

namespace ocellus {

/// Makes the automaton of what `start` matches, with bytes outside `spelled` left out: the tables stand at the
/// beginning of `memory`, *used_bytes long. The grammar must lie elsewhere; the rest of the memory is worked in. Every
/// state of the automaton leads to an end.
///
/// kUnsupported if no text matches, a rule is left-recursive, or compiling would take too long; kFull if it does not
/// fit.
Status compile_grammar(const Grammar& grammar, Expression start, const ByteSet& spelled, HostView<std::byte> memory,
                       Automaton* out, int64_t* used_bytes);

}  // namespace ocellus
