// Texts that a grammar allows, picked by chance.
#pragma once

#include <string>

#include "runtime/branches/constrain/grammar/automaton.h"
#include "tests/support/random.h"

namespace ocellus::test {

/// Writes one text of an expression.
class GrammarSample {
 public:
  GrammarSample(const Grammar& grammar, Random* random, int64_t most_steps = 2000)
      : grammar_(grammar), random_(*random), steps_(most_steps) {}

  /// False if the text would need more steps, or if chance led to what matches nothing.
  bool write(Expression e) {
    if (--steps_ < 0) return false;
    const Grammar::Node& node = grammar_.node(e);
    switch (node.kind) {
      case ExpressionKind::kNever: return false;
      case ExpressionKind::kText: return text_ += grammar_.text_of(node), true;
      case ExpressionKind::kByte: return write_byte(grammar_.bytes_of(node));
      case ExpressionKind::kSequence:
        for (int32_t c = node.a; c != kNoExpression; c = grammar_.cell(c).next)
          if (!write(grammar_.cell(c).item)) return false;
        return true;
      case ExpressionKind::kChoice: return write_choice(node);
      case ExpressionKind::kRepeat: return write_repeat(node);
      case ExpressionKind::kRule: return write(grammar_.body(node.a));
      case ExpressionKind::kAutomaton: return write_automaton(node);
    }
    return false;
  }
  const std::string& text() const { return text_; }

 private:
  bool write_byte(const ByteSet& set) {
    int64_t left = random_.integer(0, set.count() - 1);
    int byte = 0;
    while (!set.has(byte) || left-- > 0) ++byte;
    text_ += static_cast<char>(byte);
    return true;
  }

  bool write_automaton(const Grammar::Node& node) {
    const Automaton automaton = grammar_.automaton_of(node);
    for (int32_t at = 0; --steps_ >= 0;) {
      const AutomatonState& state = automaton.states[at];
      const int64_t picked = random_.integer(state.accepts != 0 ? -1 : 0, state.edge_count - 1);
      if (picked < 0) return true;
      const AutomatonEdge& edge = automaton.edges[state.first_edge + picked];
      text_ += static_cast<char>(random_.integer(edge.first, edge.last));
      at = edge.next;
    }
    return false;
  }

  bool write_choice(const Grammar::Node& node) {
    int64_t count = 0;
    for (int32_t c = node.a; c != kNoExpression; c = grammar_.cell(c).next) ++count;
    int32_t picked = node.a;
    for (int64_t left = random_.integer(0, count - 1); left > 0; --left) picked = grammar_.cell(picked).next;
    return write(grammar_.cell(picked).item);
  }

  bool write_repeat(const Grammar::Node& node) {
    const int64_t more = std::min<int64_t>(random_.integer(0, 3), int64_t{node.c} - node.b);
    for (int64_t left = node.b + more; left > 0; --left)
      if (!write(node.a)) return false;
    return true;
  }

  const Grammar& grammar_;
  Random& random_;
  int64_t steps_;
  std::string text_;
};

}  // namespace ocellus::test
