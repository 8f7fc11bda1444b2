#include "runtime/branches/constrain/grammar/nfa.h"

#include <algorithm>

namespace ocellus {
namespace {

/// Counts from here on are none: no answer is as long.
constexpr int64_t kEndless = kUnbounded;

/// Counts of items that are counted twice, `inner` within `outer`; false if some number between is left out, as 3 in
/// (x{2}){0,2}. The numbers for k and k + 1 of the outer ones meet for all k if they do for the least.
bool multiply(const Repetition& inner, Repetition* outer) {
  const int64_t k = outer->least;
  const bool has_gap =
      inner.most == kUnbounded ? k == 0 && inner.least > 1 : k * inner.most + 1 < (k + 1) * inner.least;
  if (has_gap && outer->most > outer->least) return false;
  const bool is_endless = (inner.most == kUnbounded || outer->most == kUnbounded) && inner.most > 0 && outer->most > 0;
  const int64_t most = is_endless ? kEndless : int64_t{inner.most} * outer->most;
  outer->least = static_cast<int32_t>(std::min(int64_t{inner.least} * outer->least, kEndless - 1));
  outer->most = static_cast<int32_t>(std::min(most, kEndless));
  outer->item = inner.item;
  return true;
}

}  // namespace

Status NfaBuilder::build(Expression e) {
  nodes_.clear();
  edges_.clear();
  status_ = {};
  const int32_t from = add_node();
  const int32_t to = add_node();
  add(e, from, to, 0);
  return status_;
}

/// False, which is noted, if there are no steps left.
bool NfaBuilder::spend(int64_t steps) {
  if (status_.ok() && !facts_->grammar().spend(steps)) status_ = facts_->grammar().status();
  return status_.ok();
}

int32_t NfaBuilder::add_node() {
  if (nodes_.push(-1)) return static_cast<int32_t>(nodes_.count() - 1);
  if (status_.ok()) status_ = OCELLUS_FAIL(Code::kFull, "the grammar is too large for the memory of a constraint");
  return 0;
}

void NfaBuilder::add_edge(int32_t from, const NfaEdge& edge) {
  if (!spend(2)) return;
  if (!edges_.push(edge)) {
    status_ = OCELLUS_FAIL(Code::kFull, "the grammar is too large for the memory of a constraint");
    return;
  }
  edges_[edges_.count() - 1].next = nodes_[from];
  nodes_[from] = static_cast<int32_t>(edges_.count() - 1);
}

/// Adds ways from one node to another, which has no way back and into which nothing else leads that must not go on:
/// loops are made on nodes of their own. What matches nothing is left out, so that every node leads to the end.
void NfaBuilder::add(Expression e, int32_t from, int32_t to, int depth) {
  const ExpressionFacts& facts = facts_->of(e);
  if (!facts.is_productive || !spend(4)) return;
  const Grammar& grammar = facts_->grammar();
  const Grammar::Node& node = grammar.node(e);
  switch (node.kind) {
    case ExpressionKind::kNever: return;
    case ExpressionKind::kText: return add_text(grammar.text_of(node), from, to);
    case ExpressionKind::kByte: return add_bytes(grammar.bytes_of(node), from, to);
    case ExpressionKind::kSequence: return add_sequence(node, from, to, depth + 1);
    case ExpressionKind::kChoice:
      for (int32_t c = node.a; c != kNoExpression; c = grammar.cell(c).next)
        add(grammar.cell(c).item, from, to, depth + 1);
      return;
    case ExpressionKind::kRepeat: return add_repeat(flatten(e), from, to, depth + 1);
    case ExpressionKind::kRule: {
      const Expression body = grammar.body(node.a);
      if ((copies_all() || !facts_->of(body).is_called) && depth < kMaxDepth) return add(body, from, to, depth + 1);
      return add_call(body, false, 1, 1, from, to);
    }
    case ExpressionKind::kAutomaton: return add_automaton(node, from, to);
  }
}

void NfaBuilder::add_text(std::string_view text, int32_t from, int32_t to) {
  if (text.empty()) return add_empty(from, to);
  for (size_t i = 0; i < text.size(); ++i) {
    const int32_t after = i + 1 == text.size() ? to : add_node();
    const auto byte = static_cast<uint8_t>(text[i]);
    add_edge(from, {.target = after, .symbol = NfaEdge::kBytes, .first = byte, .last = byte});
    from = after;
  }
}

void NfaBuilder::add_bytes(const ByteSet& set, int32_t from, int32_t to) {
  const ByteSet bytes = ByteSet(set).keep(facts_->spelled());
  for (int first = 0; first < 256; ++first) {
    if (!bytes.has(first)) continue;
    int last = first;
    while (last < 255 && bytes.has(last + 1)) ++last;
    add_edge(from, {.target = to,
                    .symbol = NfaEdge::kBytes,
                    .first = static_cast<uint8_t>(first),
                    .last = static_cast<uint8_t>(last)});
    first = last;
  }
}

/// Each state is a node of its own; the start may be come back to.
void NfaBuilder::add_automaton(const Grammar::Node& node, int32_t from, int32_t to) {
  const Automaton automaton = grammar().automaton_of(node);
  const auto first = static_cast<int32_t>(node_count());
  for (int32_t s = 0; s < node.b; ++s) add_node();
  add_empty(from, first);
  for (int32_t s = 0; s < node.b && status_.ok(); ++s) {
    if (automaton.states[s].accepts != 0) add_empty(first + s, to);
    automaton.visit_edges(s, [&](const AutomatonEdge& edge) {
      if (facts_->leads(node, edge.next))
        add_bytes(ByteSet().add_range(edge.first, edge.last), first + s, first + edge.next);
    });
  }
}

/// Repetitions of one item after each other are one.
void NfaBuilder::add_sequence(const Grammar::Node& node, int32_t from, int32_t to, int depth) {
  const Grammar& grammar = facts_->grammar();
  for (int32_t c = node.a; c != kNoExpression && status_.ok();) {
    const Expression first = grammar.cell(c).item;
    Repetition all = flatten(first);
    int32_t next = grammar.cell(c).next;
    bool is_joined = false;
    while (next != kNoExpression && all.least < kUnbounded - 1 && spend(1)) {
      const Repetition more = flatten(grammar.cell(next).item);
      const bool counts = all.most > 1 || more.most > 1;
      if (!counts || !are_same(all.item, more.item)) break;
      const int64_t most = int64_t{all.most} + more.most;
      all.least = static_cast<int32_t>(std::min(int64_t{all.least} + more.least, kEndless - 1));
      all.most = static_cast<int32_t>(std::min(most, kEndless));
      next = grammar.cell(next).next;
      is_joined = true;
    }
    const int32_t after = next == kNoExpression ? to : add_node();
    is_joined ? add_repeat(all, from, after, depth + 1) : add(first, from, after, depth);
    from = after;
    c = next;
  }
}

/// The repetition that an expression is, through rules that are nothing else and repetitions of it.
Repetition NfaBuilder::flatten(Expression e) const {
  constexpr int kMostRules = 16;
  const Grammar& grammar = facts_->grammar();
  Repetition all{e};
  for (int rules = 0; rules < kMostRules;) {
    const Grammar::Node& node = grammar.node(all.item);
    if (node.kind == ExpressionKind::kRepeat) {
      if (!multiply({node.a, node.b, node.c}, &all)) break;
      continue;
    }
    // A rule that is only a repetition, and in no circle.
    if (node.kind != ExpressionKind::kRule || !facts_->of(all.item).is_regular) break;
    Expression body = grammar.body(node.a);
    while (grammar.node(body).kind == ExpressionKind::kRule && ++rules < kMostRules)
      body = grammar.body(grammar.node(body).a);
    if (grammar.node(body).kind != ExpressionKind::kRepeat) break;
    all.item = body;
    ++rules;
  }
  return all;
}

bool NfaBuilder::are_same(Expression a, Expression b) const {
  const Grammar& grammar = facts_->grammar();
  const Grammar::Node& x = grammar.node(a);
  const Grammar::Node& y = grammar.node(b);
  if (a == b || x.kind != y.kind) return a == b;
  if (x.kind == ExpressionKind::kByte) return grammar.bytes_of(x) == grammar.bytes_of(y);
  return x.kind == ExpressionKind::kRule && x.a == y.a;
}

bool NfaBuilder::is_broad(Expression item) const {
  constexpr int32_t kMostVisits = 4096;
  ByteSet first;
  int32_t budget = kMostVisits;
  const bool is_known =
      facts_->of(item).is_regular && !facts_->of(item).is_nullable && facts_->add_first_bytes(item, &first, &budget);
  facts_->grammar().spend(kMostVisits - budget);
  return is_known && first.count() >= kBroadBytes;
}

void NfaBuilder::add_repeat(const Repetition& all, int32_t from, int32_t to, int depth) {
  const ExpressionFacts& item = facts_->of(all.item);
  if (!item.is_productive) {
    if (all.least == 0) add_empty(from, to);
    return;
  }
  if (all.least == 1 && all.most == 1) return add(all.item, from, to, depth);
  const int64_t copies = all.most == kUnbounded ? int64_t{all.least} + 1 : all.most;
  const bool is_small = copies * item.size <= kCopiedRepeat || copies == 1;
  if (copies_all() || (is_small && !(all.most >= kFewRepeats && is_broad(all.item))))
    return add_copies(all, from, to, depth);
  if (item.is_nullable && !item.is_regular && status_.ok())
    status_ = OCELLUS_FAIL(Code::kUnsupported, "the grammar repeats a recursive rule that may be empty");
  const int32_t least = item.is_nullable ? 0 : all.least;
  if (least == 0) add_empty(from, to);
  add_call(all.item, true, std::max(least, 1), all.most, from, to);
}

/// item item ... then either a loop, or items that each may be the last.
void NfaBuilder::add_copies(const Repetition& all, int32_t from, int32_t to, int depth) {
  for (int32_t i = 0; i < all.least; ++i) {
    const int32_t after = add_node();
    add(all.item, from, after, depth);
    from = after;
  }
  if (all.most == kUnbounded) {
    const int32_t loop = add_node();
    add_empty(from, loop);
    add(all.item, loop, loop, depth);
    return add_empty(loop, to);
  }
  for (int32_t i = all.least; i < all.most && status_.ok(); ++i) {
    add_empty(from, to);
    const int32_t after = add_node();
    add(all.item, from, after, depth);
    from = after;
  }
  add_empty(from, to);
}

void NfaBuilder::add_call(Expression e, bool is_item, int32_t least, int32_t most, int32_t from, int32_t to) {
  if (!status_.ok()) return;
  if (copies_all()) {
    status_ =
        OCELLUS_FAIL(Code::kUnsupported, "what refers to itself or nests deep cannot hold together with the rest");
    return;
  }
  // An item that may be empty has a machine of its own, without the empty text.
  const bool apart = is_item && facts_->of(e).is_nullable;
  int32_t& machine = apart ? facts_->of(e).item_machine : facts_->of(e).machine;
  bool fits = true;
  if (machine == -1) {
    machine = static_cast<int32_t>(machines_->count());
    fits = machines_->push({e, apart});
  }
  const int32_t number = fits ? find_symbol(machine, least, most) : -1;
  if (number < 0 && !spend(0)) return;
  if (number < 0) {
    status_ = OCELLUS_FAIL(Code::kFull, "the grammar has too many rules for the memory of a constraint");
    return;
  }
  add_edge(from, {.target = to, .symbol = number});
}

/// The symbol of such calls, added if there is none; -1 if there is no room.
int32_t NfaBuilder::find_symbol(int32_t machine, int32_t least, int32_t most) {
  int32_t& newest = (*machines_)[machine].symbol;
  for (int32_t s = newest; s >= 0 && spend(1); s = (*symbols_)[s].next)
    if ((*symbols_)[s].calls(machine, least, most)) return s;
  if (!status_.ok() || !symbols_->push({machine, least, most, newest})) return -1;
  return newest = static_cast<int32_t>(symbols_->count() - 1);
}

}  // namespace ocellus
