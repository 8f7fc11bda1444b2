// Determinizer: the subset construction (Rabin and Scott 1959, "Finite automata and their decision problems") from a
// machine's NFA to states of the automaton.
#pragma once

#include "runtime/branches/constrain/grammar/automaton.h"
#include "runtime/branches/constrain/grammar/nfa.h"

namespace ocellus {

/// Tables of the automaton while it is made. Callees of calls are numbers of symbols until all machines are there.
struct AutomatonTables {
  GrowingArray<AutomatonState> states;
  GrowingArray<AutomatonEdge> edges;
  GrowingArray<AutomatonCall> calls;
};

class Determinizer {
 public:
  /// Takes what it needs from the workspace: for machines of up to `most_nodes` nodes.
  Status open(int64_t most_nodes, Workspace* workspace);
  /// Appends the states of the machine; the first one is its start. Without the empty text if `is_item`.
  Status run(const NfaBuilder& nfa, bool is_item, AutomatonTables* tables);

 private:
  /// A set of nodes, sorted: those of a state that have edges other than empty ones, and the last node.
  struct NodeSet {
    int32_t begin = 0, count = 0;
    int32_t next = -1;  // state of the same hash
  };
  struct Range {
    int32_t target = 0;
    uint8_t first = 0, last = 0;
  };

  void begin_set() { ++stamp_; }
  void reach(const NfaBuilder& nfa, int32_t node);
  int32_t end_set();
  int32_t find_or_add(int32_t begin);
  void expand(const NfaBuilder& nfa, int32_t state, AutomatonTables* tables);
  void expand_bytes(const NfaBuilder& nfa, AutomatonTables* tables);
  void expand_calls(const NfaBuilder& nfa, AutomatonTables* tables);
  void note_full();
  bool spend(const NfaBuilder& nfa);

  static constexpr int32_t kBuckets = 4096;

  GrowingArray<uint32_t> marks_;   // by node: stamp of the set that has it
  GrowingArray<int32_t> pending_;  // nodes to follow
  GrowingArray<int32_t> members_;  // all sets, one after the other; the newest set is being made at its end
  GrowingArray<NodeSet> sets_;     // by state of the machine
  GrowingArray<Range> ranges_;
  GrowingArray<NfaEdge> called_;
  GrowingArray<int32_t> buckets_;
  uint32_t stamp_ = 0;
  int32_t base_ = 0;   // first state of the machine
  int64_t steps_ = 0;  // taken and not charged yet
  Status status_;
};

}  // namespace ocellus
