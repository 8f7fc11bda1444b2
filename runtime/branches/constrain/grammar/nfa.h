// Nfa: Thompson's construction of one machine (Thompson 1968, "Regular expression search algorithm"), with calls of
// other machines as symbols.
#pragma once

#include "runtime/branches/constrain/grammar/automaton.h"
#include "runtime/branches/constrain/grammar/grammar_facts.h"
#include "runtime/branches/constrain/grammar/growing_array.h"

namespace ocellus {

/// A call as a symbol; what follows it depends on the place.
struct CallSymbol {
  int32_t machine = 0;
  int32_t least = 1, most = 1;
  int32_t next = -1;  // another symbol of the same machine

  bool calls(int32_t its_machine, int32_t its_least, int32_t its_most) const {
    return machine == its_machine && least == its_least && most == its_most;
  }
};

/// An expression that machines are made of.
struct MachineSource {
  Expression expression = kNoExpression;
  bool is_item = false;  // it is counted, and matches no empty text
  int32_t symbol = -1;   // the newest that calls it
};

/// A repetition, or any other expression once.
struct Repetition {
  Expression item = kNoExpression;
  int32_t least = 1, most = 1;
};

struct NfaEdge {
  int32_t next = -1;  // next edge of the node
  int32_t target = 0;
  int32_t symbol = 0;  // number of a call; kBytes, kEmpty
  uint8_t first = 0, last = 0;

  static constexpr int32_t kBytes = -1;
  static constexpr int32_t kEmpty = -2;
};

class NfaBuilder {
 public:
  /// Machines that are called are added to `machines`, symbols to `symbols`. Both null: nothing is called, all is
  /// copied.
  NfaBuilder(GrammarFacts* facts, GrowingArray<MachineSource>* machines, GrowingArray<CallSymbol>* symbols,
             GrowingArray<int32_t> nodes, GrowingArray<NfaEdge> edges)
      : facts_(facts), machines_(machines), symbols_(symbols), nodes_(nodes), edges_(edges) {}

  /// Builds the machine of an expression, from node `first()` to node `last()`.
  Status build(Expression e);

  const Grammar& grammar() const { return facts_->grammar(); }
  int32_t first() const { return 0; }
  int32_t last() const { return 1; }
  int64_t node_count() const { return nodes_.count(); }
  /// Calls visit(edge) for the edges of a node.
  template <class Visit>
  void visit_edges(int32_t node, Visit visit) const {
    for (int32_t e = nodes_[node]; e != -1; e = edges_[e].next) visit(edges_[e]);
  }

 private:
  /// Repetitions are copied up to this size, larger ones counted.
  static constexpr int64_t kCopiedRepeat = 256;
  static constexpr int32_t kFewRepeats = 4;
  static constexpr int kMaxDepth = 100;  // expressions and copied rules within each other

  int32_t add_node();
  void add_edge(int32_t from, const NfaEdge& edge);
  void add_empty(int32_t from, int32_t to) { add_edge(from, {.target = to, .symbol = NfaEdge::kEmpty}); }
  void add(Expression e, int32_t from, int32_t to, int depth);
  void add_text(std::string_view text, int32_t from, int32_t to);
  void add_bytes(const ByteSet& set, int32_t from, int32_t to);
  void add_sequence(const Grammar::Node& node, int32_t from, int32_t to, int depth);
  void add_automaton(const Grammar::Node& node, int32_t from, int32_t to);
  Repetition flatten(Expression e) const;
  bool are_same(Expression a, Expression b) const;
  void add_repeat(const Repetition& all, int32_t from, int32_t to, int depth);
  void add_copies(const Repetition& all, int32_t from, int32_t to, int depth);
  void add_call(Expression e, bool is_item, int32_t least, int32_t most, int32_t from, int32_t to);
  int32_t find_symbol(int32_t machine, int32_t least, int32_t most);
  bool is_broad(Expression item) const;
  bool spend(int64_t steps);
  bool copies_all() const { return machines_ == nullptr; }

  GrammarFacts* facts_;
  GrowingArray<MachineSource>* machines_;
  GrowingArray<CallSymbol>* symbols_;
  GrowingArray<int32_t> nodes_;  // first edge; -1: none
  GrowingArray<NfaEdge> edges_;
  Status status_;
};

}  // namespace ocellus
