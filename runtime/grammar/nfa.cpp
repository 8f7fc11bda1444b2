#include "runtime/grammar/nfa.h"

#include <algorithm>

namespace ocellus {

Status NfaBuilder::build(Expression e) {
  nodes_.clear();
  edges_.clear();
  status_ = {};
  const int32_t from = add_node();
  const int32_t to = add_node();
  add(e, from, to, 0);
  return status_;
}

int32_t NfaBuilder::add_node() {
  if (nodes_.push(-1)) return static_cast<int32_t>(nodes_.count() - 1);
  if (status_.ok()) status_ = OCELLUS_FAIL(Code::kFull, "the grammar is too large for the memory of a constraint");
  return 0;
}

void NfaBuilder::add_edge(int32_t from, const NfaEdge& edge) {
  if (!status_.ok()) return;
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
  if (!facts.is_productive || !status_.ok()) return;
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
    case ExpressionKind::kRepeat: return add_repeat(node, from, to, depth + 1);
    case ExpressionKind::kRule: {
      const Expression body = grammar.body(node.a);
      if (!facts_->of(body).is_called && depth < kMaxDepth) return add(body, from, to, depth + 1);
      return add_call(body, false, 1, 1, from, to);
    }
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

void NfaBuilder::add_sequence(const Grammar::Node& node, int32_t from, int32_t to, int depth) {
  const Grammar& grammar = facts_->grammar();
  for (int32_t c = node.a; c != kNoExpression; c = grammar.cell(c).next) {
    const int32_t after = grammar.cell(c).next == kNoExpression ? to : add_node();
    add(grammar.cell(c).item, from, after, depth);
    from = after;
  }
}

bool NfaBuilder::is_broad(Expression item) const {
  ByteSet first;
  int32_t budget = 4096;
  return facts_->of(item).is_regular && !facts_->of(item).is_nullable &&
         facts_->add_first_bytes(item, &first, &budget) && first.count() >= kBroadBytes;
}

void NfaBuilder::add_repeat(const Grammar::Node& node, int32_t from, int32_t to, int depth) {
  const ExpressionFacts& item = facts_->of(node.a);
  if (!item.is_productive) return add_empty(from, to);
  const int64_t copies = node.c == kUnbounded ? int64_t{node.b} + 1 : node.c;
  if ((copies * item.size <= kCopiedRepeat || copies == 1) && !(node.c >= kFewRepeats && is_broad(node.a)))
    return add_copies(node, from, to, depth);
  if (item.is_nullable && !item.is_regular && status_.ok())
    status_ = OCELLUS_FAIL(Code::kUnsupported, "the grammar repeats a recursive rule that may be empty");
  const int32_t least = item.is_nullable ? 0 : node.b;
  if (least == 0) add_empty(from, to);
  add_call(node.a, true, std::max(least, 1), node.c, from, to);
}

/// item item ... then either a loop, or items that each may be the last.
void NfaBuilder::add_copies(const Grammar::Node& node, int32_t from, int32_t to, int depth) {
  for (int32_t i = 0; i < node.b; ++i) {
    const int32_t after = add_node();
    add(node.a, from, after, depth);
    from = after;
  }
  if (node.c == kUnbounded) {
    const int32_t loop = add_node();
    add_empty(from, loop);
    add(node.a, loop, loop, depth);
    return add_empty(loop, to);
  }
  for (int32_t i = node.b; i < node.c && status_.ok(); ++i) {
    add_empty(from, to);
    const int32_t after = add_node();
    add(node.a, from, after, depth);
    from = after;
  }
  add_empty(from, to);
}

void NfaBuilder::add_call(Expression e, bool is_item, int32_t least, int32_t most, int32_t from, int32_t to) {
  if (!status_.ok()) return;
  // An item that may be empty has a machine of its own, without the empty text.
  const bool apart = is_item && facts_->of(e).is_nullable;
  int32_t& machine = apart ? facts_->of(e).item_machine : facts_->of(e).machine;
  bool fits = true;
  if (machine == -1) {
    machine = static_cast<int32_t>(machines_->count());
    fits = machines_->push({e, apart});
  }
  const CallSymbol symbol{machine, least, most};
  const CallSymbol* const known = std::find(symbols_->begin(), symbols_->end(), symbol);
  const auto number = static_cast<int32_t>(known - symbols_->begin());
  if (known == symbols_->end()) fits = fits && symbols_->push(symbol);
  if (!fits) {
    status_ = OCELLUS_FAIL(Code::kFull, "the grammar has too many rules for the memory of a constraint");
    return;
  }
  add_edge(from, {.target = to, .symbol = number});
}

}  // namespace ocellus
