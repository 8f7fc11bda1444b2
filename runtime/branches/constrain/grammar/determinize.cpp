#include "runtime/branches/constrain/grammar/determinize.h"

#include <algorithm>

namespace ocellus {

Status Determinizer::open(int64_t most_nodes, Workspace* workspace) {
  marks_ = workspace->take<uint32_t>(most_nodes * int64_t{sizeof(uint32_t)});
  pending_ = workspace->take<int32_t>(most_nodes * int64_t{sizeof(int32_t)});
  buckets_ = workspace->take<int32_t>(kBuckets * int64_t{sizeof(int32_t)});
  const int64_t share = workspace->left() / 8;
  sets_ = workspace->take<NodeSet>(2 * share);
  ranges_ = workspace->take<Range>(share);
  called_ = workspace->take<NfaEdge>(share);
  members_ = workspace->take<int32_t>(workspace->left() - 64);
  return marks_.resize(most_nodes) && buckets_.resize(kBuckets, -1)
             ? Status()
             : OCELLUS_FAIL(Code::kFull, "the memory of a constraint is too small for its grammar");
}

void Determinizer::note_full() {
  if (status_.ok())
    status_ = OCELLUS_FAIL(Code::kFull, "the grammar has more states than the memory of a constraint holds");
}

/// Charges the steps since the last time; false after a failure.
bool Determinizer::spend(const NfaBuilder& nfa) {
  if (status_.ok() && !nfa.grammar().spend(steps_)) status_ = nfa.grammar().status();
  steps_ = 0;
  return status_.ok();
}

/// Adds a node and what empty edges lead to.
void Determinizer::reach(const NfaBuilder& nfa, int32_t node) {
  pending_.clear();
  const auto add = [&](int32_t n) {
    if (marks_[n] == stamp_) return;
    marks_[n] = stamp_;
    pending_.push(n);  // each node once, so that there is room
  };
  for (add(node); !pending_.empty();) {
    const int32_t n = pending_.pop();
    bool matters = n == nfa.last();
    ++steps_;
    nfa.visit_edges(n, [&](const NfaEdge& edge) {
      ++steps_;
      if (edge.symbol == NfaEdge::kEmpty)
        add(edge.target);
      else
        matters = true;
    });
    if (matters && !members_.push(n)) note_full();
  }
}

/// Returns the state of the set that was made at the end of the members.
int32_t Determinizer::end_set() {
  const int64_t begin = sets_.empty() ? 0 : sets_[sets_.count() - 1].begin + sets_[sets_.count() - 1].count;
  return find_or_add(static_cast<int32_t>(begin));
}

int32_t Determinizer::find_or_add(int32_t begin) {
  const auto count = static_cast<int32_t>(members_.count() - begin);
  steps_ += 4 * int64_t{count} + 4;
  int32_t* const nodes = members_.data() + begin;
  std::sort(nodes, nodes + count);
  uint32_t hash = 2166136261u;
  for (int32_t i = 0; i < count; ++i) hash = (hash ^ static_cast<uint32_t>(nodes[i])) * 16777619u;
  int32_t& bucket = buckets_[(hash ^ hash >> 16) % kBuckets];
  for (int32_t s = bucket; s != -1; s = sets_[s].next) {
    ++steps_;
    if (sets_[s].count != count || !std::equal(nodes, nodes + count, members_.data() + sets_[s].begin)) continue;
    members_.resize(begin);
    return s;
  }
  const auto state = static_cast<int32_t>(sets_.count());
  if (!sets_.push({begin, count, bucket})) return note_full(), 0;
  bucket = state;
  return state;
}

Status Determinizer::run(const NfaBuilder& nfa, bool is_item, AutomatonTables* tables) {
  status_ = {};
  std::fill(buckets_.begin(), buckets_.end(), -1);
  sets_.clear();
  members_.clear();
  base_ = static_cast<int32_t>(tables->states.count());
  begin_set();
  reach(nfa, nfa.first());
  end_set();
  if (is_item && status_.ok()) {  // its start is a state of its own, which nothing leads back to
    buckets_.resize(0);
    buckets_.resize(kBuckets, -1);
  }
  for (int32_t state = 0; state < sets_.count() && status_.ok(); ++state) {
    expand(nfa, state, tables);
    spend(nfa);
    if (state == 0 && is_item && status_.ok()) tables->states[base_].accepts = 0;
  }
  return status_;
}

void Determinizer::expand(const NfaBuilder& nfa, int32_t state, AutomatonTables* tables) {
  const NodeSet set = sets_[state];
  steps_ += 32;  // all bytes are looked at
  ranges_.clear();
  called_.clear();
  bool accepts = false;
  for (int32_t i = 0; i < set.count; ++i) {
    const int32_t node = members_[set.begin + i];
    accepts = accepts || node == nfa.last();
    nfa.visit_edges(node, [&](const NfaEdge& edge) {
      const bool fits = edge.symbol == NfaEdge::kEmpty   ? true
                        : edge.symbol == NfaEdge::kBytes ? ranges_.push({edge.target, edge.first, edge.last})
                                                         : called_.push(edge);
      if (!fits) note_full();
    });
  }
  AutomatonState row;
  row.first_edge = static_cast<int32_t>(tables->edges.count());
  row.first_call = static_cast<int32_t>(tables->calls.count());
  row.accepts = accepts ? 1 : 0;
  expand_bytes(nfa, tables);
  expand_calls(nfa, tables);
  const int64_t calls = tables->calls.count() - row.first_call;
  row.edge_count = static_cast<uint16_t>(tables->edges.count() - row.first_edge);  // at most 256
  row.call_count = static_cast<uint16_t>(calls);
  if (calls > UINT16_MAX || !tables->states.push(row)) note_full();
}

/// Cuts the bytes where ranges begin and end; between two cuts all bytes lead to the same nodes.
void Determinizer::expand_bytes(const NfaBuilder& nfa, AutomatonTables* tables) {
  bool cuts[257] = {};
  for (const Range& range : ranges_) cuts[range.first] = cuts[range.last + 1] = true;
  const int64_t begin = tables->edges.count();
  for (int first = 0; first < 256 && spend(nfa);) {
    int last = first;
    while (last < 255 && !cuts[last + 1]) ++last;
    begin_set();
    const int64_t members = members_.count();
    steps_ += ranges_.count();
    for (const Range& range : ranges_)
      if (range.first <= first && first <= range.last) reach(nfa, range.target);
    if (members_.count() > members) {
      const int32_t next = base_ + end_set();
      AutomatonEdge* const before = tables->edges.count() > begin ? tables->edges.end() - 1 : nullptr;
      if (before != nullptr && before->next == next && before->last + 1 == first)
        before->last = static_cast<uint8_t>(last);
      else if (!tables->edges.push({next, static_cast<uint8_t>(first), static_cast<uint8_t>(last)}))
        note_full();
    }
    first = last + 1;
  }
}

void Determinizer::expand_calls(const NfaBuilder& nfa, AutomatonTables* tables) {
  std::sort(called_.begin(), called_.end(), [](const NfaEdge& a, const NfaEdge& b) { return a.symbol < b.symbol; });
  steps_ += 8 * called_.count();
  for (int64_t i = 0; i < called_.count() && spend(nfa);) {
    const int32_t symbol = called_[i].symbol;
    begin_set();
    for (; i < called_.count() && called_[i].symbol == symbol; ++i) reach(nfa, called_[i].target);
    if (!tables->calls.push({.callee = symbol, .returns = base_ + end_set()})) note_full();
  }
}

}  // namespace ocellus
