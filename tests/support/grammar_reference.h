// Plain reference of grammars: which texts an expression matches, by trying everything.
#pragma once

#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "runtime/branches/constrain/grammar/automaton.h"

namespace ocellus::test {

/// Finds where matches of expressions end in one text. Rules must not be left-recursive.
class GrammarReference {
 public:
  GrammarReference(const Grammar& grammar, std::string_view text) : grammar_(grammar), text_(text) {}

  bool matches(Expression e) { return ends(e, 0).count(text_.size()) > 0; }

 private:
  using Ends = std::set<size_t>;

  const Ends& ends(Expression e, size_t begin) {
    const auto key = std::make_pair(e, begin);
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
    known_[key] = {};  // left recursion that never ends matches nothing
    Ends result = find_ends(e, begin);
    return known_[key] = std::move(result);
  }

  Ends find_ends(Expression e, size_t begin) {
    const Grammar::Node& node = grammar_.node(e);
    switch (node.kind) {
      case ExpressionKind::kNever: return {};
      case ExpressionKind::kText: {
        const std::string_view bytes = grammar_.text_of(node);
        return text_.substr(begin).substr(0, bytes.size()) == bytes ? Ends{begin + bytes.size()} : Ends{};
      }
      case ExpressionKind::kByte: {
        const bool has = begin < text_.size() && grammar_.bytes_of(node).has(static_cast<uint8_t>(text_[begin]));
        return has ? Ends{begin + 1} : Ends{};
      }
      case ExpressionKind::kSequence: {
        Ends now = {begin};
        for (int32_t c = node.a; c != kNoExpression; c = grammar_.cell(c).next) now = after(now, grammar_.cell(c).item);
        return now;
      }
      case ExpressionKind::kChoice: {
        Ends all;
        for (int32_t c = node.a; c != kNoExpression; c = grammar_.cell(c).next)
          all.merge(Ends(ends(grammar_.cell(c).item, begin)));
        return all;
      }
      case ExpressionKind::kRepeat: return find_repeats(node, begin);
      case ExpressionKind::kRule: return ends(grammar_.body(node.a), begin);
      case ExpressionKind::kAutomaton: return find_ends_of_automaton(node, begin);
    }
    return {};
  }

  Ends find_ends_of_automaton(const Grammar::Node& node, size_t begin) {
    const Automaton automaton = grammar_.automaton_of(node);
    Ends all;
    int32_t state = 0;
    for (size_t at = begin; state >= 0; ++at) {
      if (automaton.states[state].accepts != 0) all.insert(at);
      state = at < text_.size() ? automaton.next(state, static_cast<uint8_t>(text_[at])) : -1;
    }
    return all;
  }

  Ends find_repeats(const Grammar::Node& node, size_t begin) {
    Ends all, now = {begin};
    if (node.b == 0) all = now;
    for (int64_t count = 1; count <= node.c && !now.empty(); ++count) {
      Ends next = after(now, node.a);
      if (count > node.b && next == now) break;  // only empty repetitions are left
      now = std::move(next);
      if (count >= node.b) all.insert(now.begin(), now.end());
      if (count > node.b + static_cast<int64_t>(text_.size()) + 1) break;
    }
    return all;
  }

  Ends after(const Ends& begins, Expression e) {
    Ends all;
    for (const size_t begin : begins) all.merge(Ends(ends(e, begin)));
    return all;
  }

  const Grammar& grammar_;
  std::string_view text_;
  std::map<std::pair<Expression, size_t>, Ends> known_;
};

}  // namespace ocellus::test
