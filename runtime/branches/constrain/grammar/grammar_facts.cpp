#include "runtime/branches/constrain/grammar/grammar_facts.h"

#include <algorithm>

#include "runtime/branches/constrain/grammar/automaton.h"
#include "runtime/branches/constrain/grammar/token_code.h"

namespace ocellus {
namespace {

Status no_room() { return OCELLUS_FAIL(Code::kFull, "the grammar is too large for the memory of a constraint"); }

/// Calls visit(item) for the items of a list until it returns false.
template <class Visit>
bool all_of_items(const Grammar& grammar, const Grammar::Node& node, Visit visit) {
  for (int32_t c = node.a; c != kNoExpression; c = grammar.cell(c).next)
    if (!visit(grammar.cell(c).item)) return false;
  return true;
}

bool has_leading(const ByteSet& bytes) { return bytes.has(' ') || bytes.has(TokenCode::kMark); }

bool is_list(const Grammar::Node& node) {
  return node.kind == ExpressionKind::kSequence || node.kind == ExpressionKind::kChoice;
}

}  // namespace

Status GrammarFacts::find(const Grammar& grammar, Expression start, const ByteSet& spelled, Workspace* workspace,
                          Expression first) {
  grammar_ = &grammar;
  first_ = first;
  spelled_ = spelled;
  OCELLUS_TRY(list_expressions(start, workspace));
  OCELLUS_TRY(settle());
  find_sizes();
  find_called(start);
  find_sizes();
  return {};
}

/// Each pass settles all rules but those in circles, of which it settles one level more.
Status GrammarFacts::settle() {
  for (bool changed = true; changed;) {
    changed = false;
    if (!grammar_->spend(4 * facts_.count() + number_of_.count())) return grammar_->status();
    for (ExpressionFacts& facts : facts_) changed = find_once(&facts) || changed;
  }
  return {};
}

/// Lists what `start` refers to, parts first, with a stack of its own: rules refer to rules through any number.
Status GrammarFacts::list_expressions(Expression start, Workspace* workspace) {
  const int64_t units = grammar_->unit_count() - first_;
  number_of_ = workspace->take<int32_t>(units * int64_t{sizeof(int32_t)});
  if (!number_of_.resize(units, -1)) return no_room();
  facts_ = workspace->take<ExpressionFacts>(workspace->left() / 2);
  GrowingArray<Visit> stack = workspace->take<Visit>(workspace->left() / 2);
  if (!open(start, &stack)) return no_room();
  while (!stack.empty()) {
    Visit& top = stack[stack.count() - 1];
    if (top.next == kNoExpression) {
      if (!facts_.push({.expression = top.expression})) return no_room();
      number_of_[top.expression - first_] = static_cast<int32_t>(facts_.count() - 1);
      stack.pop();
      continue;
    }
    Expression child = top.next;
    top.next = kNoExpression;
    if (is_list(grammar_->node(top.expression))) {
      top.next = grammar_->cell(child).next;
      child = grammar_->cell(child).item;
    }
    if (number_of_[child - first_] == -1 && !open(child, &stack)) return no_room();
  }
  workspace->rewind(facts_.end());
  for (const ExpressionFacts& facts : facts_) {
    const Grammar::Node& node = grammar_->node(facts.expression);
    if (node.kind == ExpressionKind::kRule) of(grammar_->body(node.a)).is_body = true;
  }
  return {};
}

bool GrammarFacts::open(Expression e, GrowingArray<Visit>* stack) {
  constexpr int32_t kOpen = -2;
  number_of_[e - first_] = kOpen;
  const Grammar::Node& node = grammar_->node(e);
  const bool has_parts = is_list(node) || node.kind == ExpressionKind::kRepeat;
  const int32_t next = node.kind == ExpressionKind::kRule ? grammar_->body(node.a) : has_parts ? node.a : kNoExpression;
  return stack->push({e, next});
}

/// Walks back from the states that accept; true if the start leads there.
bool GrammarFacts::find_leads(const Grammar::Node& node) {
  const Automaton automaton = grammar_->automaton_of(node);
  for (bool changed = true; changed && grammar_->spend(2 * automaton.state_count + 4 * automaton.edge_count);) {
    changed = false;
    for (int32_t s = node.b; s-- > 0;) {
      if (leads(node, s)) continue;
      bool found = automaton.states[s].accepts != 0;
      automaton.visit_edges(s, [&](const AutomatonEdge& edge) {
        const ByteSet bytes = ByteSet().add_range(edge.first, edge.last).keep(spelled_);
        found = found || (leads(node, edge.next) && !bytes.empty());
      });
      if (found) number_of_[mark_of(node, s)] = kLeads;
      changed = changed || found;
    }
  }
  return leads(node, 0);
}

bool GrammarFacts::spells(std::string_view text) const {
  return std::all_of(text.begin(), text.end(), [&](char c) { return spelled_.has(static_cast<uint8_t>(c)); });
}

/// Finds what its parts' facts say by now; true if that is more than before.
bool GrammarFacts::find_once(ExpressionFacts* facts) {
  const Grammar::Node& node = grammar_->node(facts->expression);
  bool regular = true, nullable = false, productive = false, spaced = false;
  switch (node.kind) {
    case ExpressionKind::kNever: break;
    case ExpressionKind::kText:
      nullable = node.b == 0;
      productive = spells(grammar_->text_of(node));
      spaced = node.b > 0 && has_leading(ByteSet().add(static_cast<uint8_t>(grammar_->text_of(node)[0])));
      break;
    case ExpressionKind::kByte:
      productive = !ByteSet(grammar_->bytes_of(node)).keep(spelled_).empty();
      spaced = has_leading(grammar_->bytes_of(node));
      break;
    case ExpressionKind::kSequence:
      regular = all_of_items(*grammar_, node, [&](Expression e) { return of(e).is_regular; });
      nullable = all_of_items(*grammar_, node, [&](Expression e) { return of(e).is_nullable; });
      productive = all_of_items(*grammar_, node, [&](Expression e) { return of(e).is_productive; });
      all_of_items(*grammar_, node, [&](Expression e) {
        spaced = spaced || of(e).may_begin_with_space;
        return of(e).is_nullable;
      });
      break;
    case ExpressionKind::kChoice:
      regular = all_of_items(*grammar_, node, [&](Expression e) { return of(e).is_regular; });
      nullable = !all_of_items(*grammar_, node, [&](Expression e) { return !of(e).is_nullable; });
      productive = !all_of_items(*grammar_, node, [&](Expression e) { return !of(e).is_productive; });
      spaced = !all_of_items(*grammar_, node, [&](Expression e) { return !of(e).may_begin_with_space; });
      break;
    case ExpressionKind::kRepeat:
      regular = of(node.a).is_regular;
      nullable = node.b == 0 || of(node.a).is_nullable;
      productive = node.b == 0 || of(node.a).is_productive;
      spaced = of(node.a).may_begin_with_space;
      break;
    case ExpressionKind::kRule: {
      const ExpressionFacts& body = of(grammar_->body(node.a));
      regular = body.is_regular;
      nullable = body.is_nullable;
      productive = body.is_productive;
      spaced = body.may_begin_with_space;
      break;
    }
    case ExpressionKind::kAutomaton:
      nullable = grammar_->automaton_of(node).states[0].accepts != 0;
      productive = facts->is_productive || find_leads(node);
      grammar_->automaton_of(node).visit_edges(0, [&](const AutomatonEdge& edge) {
        spaced = spaced || has_leading(ByteSet().add_range(edge.first, edge.last));
      });
      break;
  }
  const bool changed = regular != facts->is_regular || nullable != facts->is_nullable ||
                       productive != facts->is_productive || spaced != facts->may_begin_with_space;
  facts->is_regular = regular;
  facts->is_nullable = nullable;
  facts->is_productive = productive;
  facts->may_begin_with_space = spaced;
  return changed;
}

/// Parts stand before what they are parts of, but for recursive rules, which are called.
void GrammarFacts::find_sizes() {
  for (ExpressionFacts& facts : facts_)
    facts.size = static_cast<int32_t>(std::min<int64_t>(size_of(grammar_->node(facts.expression)), kMostSize));
}

int64_t GrammarFacts::size_of(const Grammar::Node& node) const {
  int64_t size = 1;
  if (node.kind == ExpressionKind::kText) size = node.b + 1;
  if (node.kind == ExpressionKind::kAutomaton) size = node.b;
  if (is_list(node)) {
    all_of_items(*grammar_, node, [&](Expression e) { return (size += of(e).size) < kMostSize; });
  } else if (node.kind == ExpressionKind::kRepeat) {
    size += of(node.a).size * std::max<int64_t>(1, node.c == kUnbounded ? int64_t{node.b} + 1 : node.c);
  } else if (node.kind == ExpressionKind::kRule) {
    const ExpressionFacts& body = of(grammar_->body(node.a));
    if (body.is_regular && !body.is_called) size = body.size;
  }
  return size;
}

/// From the whole to its parts: what is copied to several places brings its parts to all of them, what is called to
/// one.
void GrammarFacts::find_called(Expression start) {
  of(start).uses = 1;
  for (int64_t i = facts_.count(); i-- > 0;) {
    ExpressionFacts& facts = facts_[i];
    facts.is_called = facts.is_body && (!facts.is_regular || (facts.size > kCopiedSize && facts.uses > 1));
    const int uses = facts.is_called ? 1 : facts.uses;
    const auto use = [&](Expression part) {
      of(part).uses = static_cast<uint8_t>(std::min(2, of(part).uses + uses));
      return true;
    };
    const Grammar::Node& node = grammar_->node(facts.expression);
    if (is_list(node)) all_of_items(*grammar_, node, use);
    if (node.kind == ExpressionKind::kRepeat) use(node.a);
    if (node.kind == ExpressionKind::kRule) use(grammar_->body(node.a));
  }
}

bool GrammarFacts::add_first_bytes(Expression e, ByteSet* out, int32_t* budget, int depth) const {
  if (--*budget < 0 || ++depth > kMaxFirstDepth) return false;
  const Grammar::Node& node = grammar_->node(e);
  switch (node.kind) {
    case ExpressionKind::kNever: return true;
    case ExpressionKind::kText:
      if (node.b > 0) out->add(static_cast<uint8_t>(grammar_->text_of(node)[0]));
      return true;
    case ExpressionKind::kByte: out->add_all(grammar_->bytes_of(node)); return true;
    case ExpressionKind::kChoice:
      return all_of_items(*grammar_, node, [&](Expression item) { return add_first_bytes(item, out, budget, depth); });
    case ExpressionKind::kSequence: {
      bool known = true;
      all_of_items(*grammar_, node, [&](Expression item) {
        known = known && add_first_bytes(item, out, budget, depth);
        return of(item).is_nullable;
      });
      return known;
    }
    case ExpressionKind::kRepeat: return add_first_bytes(node.a, out, budget, depth);
    case ExpressionKind::kRule: return of(e).is_regular && add_first_bytes(grammar_->body(node.a), out, budget, depth);
    case ExpressionKind::kAutomaton:
      grammar_->automaton_of(node).visit_edges(
          0, [&](const AutomatonEdge& edge) { out->add_range(edge.first, edge.last); });
      return true;
  }
  return false;
}

}  // namespace ocellus
