// TextAutomata: what two conditions on one text have in common, as a deterministic automaton.
#pragma once

#include "runtime/branches/constrain/grammar/automaton.h"
#include "runtime/branches/constrain/grammar/growing_array.h"

namespace ocellus {

/// Automata in memory that the caller gives, one after the other; nothing is allocated. Their edges have bytes, no
/// calls; all their states lead to an end, and one without states has no texts. All functions fail with kFull if the
/// memory is too small and kUnsupported once the grammar's meter has no steps left.
class TextAutomata {
 public:
  /// The memory, aligned to 8 bytes, outlives the automata.
  TextAutomata(Grammar* grammar, HostView<std::byte> memory) : grammar_(*grammar), memory_(memory) {}

  /// The texts of a regular expression. `first`: a bound below all expressions that it refers to.
  Status make(Expression e, Expression first, Automaton* out);
  /// The texts of both.
  Status join(const Automaton& a, const Automaton& b, Automaton* out);
  /// The texts of the first one that the second one has not.
  Status subtract(const Automaton& a, const Automaton& b, Automaton* out);
  /// The texts of UTF-8 that have between least and most characters.
  Status limit(const Automaton& a, int32_t least, int32_t most, Automaton* out);
  /// The numbers in decimal digits, after a sign or without, whose value is a multiple of `of`.
  Status multiples(int32_t of, Automaton* out);
  /// The texts of UTF-8 as JSON writes them inside a string, those with control characters of \u left out.
  Status spell_json(const Automaton& a, Automaton* out);

  /// Bytes that the automata take, and the memory after them.
  int64_t used_bytes() const { return used_; }
  HostView<std::byte> rest() const { return {memory_.data + used_, 1, memory_.cols - used_}; }

 private:
  struct Pair;
  class Product;
  template <class Accepts, class Step>
  Status multiply(const Automaton& a, int32_t start, Accepts accepts, Step step, Automaton* out);
  Status keep(GrowingArray<AutomatonState>* states, GrowingArray<AutomatonEdge>* edges, Workspace* workspace,
              Automaton* out);
  Status merge_equal(Automaton* automaton);
  static void keep_firsts(const GrowingArray<int32_t>& classes, Automaton* automaton);

  Grammar& grammar_;
  HostView<std::byte> memory_;
  int64_t used_ = 0;
};

/// Tells whether the text is one of the automaton's.
bool accepts(const Automaton& automaton, std::string_view text);

}  // namespace ocellus
