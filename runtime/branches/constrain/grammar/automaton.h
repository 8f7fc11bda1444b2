// Automaton: a grammar as tables that a decode step walks.
//
// A machine is the deterministic automaton of one rule over bytes and calls of other machines. A call of a repeated
// item counts: the call itself is made between `least` and `most` times.
#pragma once

#include <cstdint>

#include "runtime/branches/constrain/grammar/byte_set.h"
#include "runtime/branches/constrain/grammar/grammar.h"

namespace ocellus {

/// Items with at least this many first bytes are counted one by one, and their tokens are found at once
/// (token_spans.h).
inline constexpr int kBroadBytes = 16;

struct AutomatonEdge {
  int32_t next = 0;
  uint8_t first = 0, last = 0;  // bytes
};

struct AutomatonState {
  int32_t first_edge = 0;  // edges in order of their bytes
  int32_t first_call = 0;
  uint16_t edge_count = 0;
  uint16_t call_count = 0;
  int32_t accepts = 0;  // 1: the machine may end here
};

struct AutomatonCall {
  int32_t callee = 0;   // first state of the machine
  int32_t returns = 0;  // state after it
  int32_t least = 1, most = 1;
  int32_t span = -1;  // number of the callee among the spans (token_spans.h); -1: it is none

  bool counts() const { return most > 1; }
};

struct Automaton {
  const AutomatonState* states = nullptr;
  const AutomatonEdge* edges = nullptr;
  const AutomatonCall* calls = nullptr;
  int64_t state_count = 0, edge_count = 0, call_count = 0;
  int32_t start = 0;

  /// Calls visit(edge) for the edges of a state.
  template <class Visit>
  void visit_edges(int32_t state, Visit visit) const {
    const AutomatonEdge* const first = edges + states[state].first_edge;
    for (const AutomatonEdge* edge = first; edge < first + states[state].edge_count; ++edge) visit(*edge);
  }

  /// Returns the state after `byte`; -1 if there is none.
  int32_t next(int32_t state, uint8_t byte) const {
    const AutomatonState& s = states[state];
    const AutomatonEdge* edge = edges + s.first_edge;
    int32_t count = s.edge_count;
    while (count > 8) {  // the last edge that begins at or before the byte
      const int32_t half = count / 2;
      if (edge[half].first <= byte) {
        edge += half;
        count -= half;
      } else {
        count = half;
      }
    }
    for (; count > 0; ++edge, --count)
      if (byte <= edge->last) return edge->first <= byte ? edge->next : -1;
    return -1;
  }

  /// Returns if nothing but the call's end follows it, so that a stack need not remember it.
  bool is_last(const AutomatonCall& call) const {
    const AutomatonState& after = states[call.returns];
    return after.accepts != 0 && after.edge_count == 0 && after.call_count == 0 && !call.counts();
  }
};

}  // namespace ocellus
