// Grammar: a context-free grammar over bytes, as the readers of schemas, GBNF and regular expressions build it.
//
// Expressions are numbers of nodes in memory that the caller gives; nothing is allocated. A function that finds no room
// returns kNoExpression and notes the failure, and every function takes kNoExpression for an argument, so that a reader
// checks status() once, at its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "platform/status.h"
#include "platform/views.h"
#include "runtime/branches/constrain/grammar/byte_set.h"
#include "runtime/branches/constrain/grammar/step_meter.h"

namespace ocellus {

using Expression = int32_t;
using RuleId = int32_t;
inline constexpr Expression kNoExpression = -1;
inline constexpr RuleId kNoRule = -1;
/// Maximum of a repetition without one.
inline constexpr int32_t kUnbounded = INT32_MAX;
/// Expressions nest at most this deep, lists not counted.
inline constexpr int32_t kMaxExpressionDepth = 200;

/// Characters first .. last, Unicode scalar values.
struct CharacterRange {
  uint32_t first = 0, last = 0;
};

struct Automaton;

enum class ExpressionKind : uint8_t {
  kNever,     // matches no text
  kText,      // bytes in order; the empty text, too
  kByte,      // one byte of a set
  kSequence,  // a list, one after the other
  kChoice,    // a list, one of them
  kRepeat,    // an expression, between least and most times
  kRule,      // a rule
  kAutomaton  // the texts of an automaton without calls
};

/// Expressions in order, built by Grammar::append.
struct ExpressionList {
  int32_t first = kNoExpression, last = kNoExpression;
  int32_t count = 0;
};

class Grammar {
 public:
  /// The memory must outlive the grammar; aligned to 8 bytes. `meter` bounds what reading and compiling it take; null:
  /// nothing does.
  explicit Grammar(HostView<std::byte> memory, StepMeter* meter = nullptr);

  Expression never() { return add({.kind = ExpressionKind::kNever}); }
  /// Copies the bytes.
  Expression text(std::string_view bytes);
  Expression byte(const ByteSet& set);
  /// One character of the ranges, which may overlap and be in any order, as UTF-8; surrogates are left out.
  Expression character(const CharacterRange* ranges, int32_t count);
  Expression sequence(const ExpressionList& list) { return add_list(ExpressionKind::kSequence, list); }
  Expression choice(const ExpressionList& list) { return add_list(ExpressionKind::kChoice, list); }
  Expression sequence(Expression a, Expression b);
  Expression choice(Expression a, Expression b);
  /// `item` at least `least` and at most `most` times.
  Expression repeat(Expression item, int32_t least, int32_t most);
  Expression optional(Expression item) { return repeat(item, 0, 1); }
  Expression rule(RuleId id);
  /// Copies its tables. The automaton has no calls; without states it matches nothing.
  Expression automaton(const Automaton& automaton);

  void append(ExpressionList* list, Expression item);
  /// A rule that is defined later, so that it may refer to itself; it matches no text before.
  RuleId add_rule();
  void define(RuleId id, Expression body);

  /// kFull after the memory was spent, kUnsupported after expressions nested too deep, or the meter's.
  Status status() const { return status_.ok() && meter != nullptr ? meter->status() : status_; }
  void fail(Status status) { status_ = status_.ok() ? status : status_; }
  /// False, and status() is the meter's, once that has no steps left.
  bool spend(int64_t steps) const { return meter == nullptr || meter->spend(steps); }
  StepMeter* const meter;  // null: none

  struct Node {
    ExpressionKind kind = ExpressionKind::kNever;
    uint8_t depth = 1;
    // text: offset; byte: number of the set; list: first cell; repeat: item; rule: its number; automaton: its states, a
    // text
    int32_t a = 0;
    int32_t b = 0;  // text: bytes; repeat: least; automaton: number of states
    int32_t c = 0;  // repeat: most; automaton: its edges, a text
  };
  /// Cell of a list; a rule, whose `next` is itself once it is defined.
  struct Cell {
    Expression item = kNoExpression;
    int32_t next = kNoExpression;
  };
  const Node& node(Expression e) const { return at<Node>(e); }
  const Cell& cell(int32_t index) const { return at<Cell>(index); }
  std::string_view text_of(const Node& node) const;
  const ByteSet& bytes_of(const Node& node) const { return at<ByteSet>(node.a); }
  Automaton automaton_of(const Node& node) const;
  /// Expressions are below it.
  int64_t unit_count() const { return used_ / kUnit; }
  Expression body(RuleId id) const;
  bool is_defined(RuleId id) const;

 private:
  template <class T>
  const T& at(int32_t index) const {
    return *reinterpret_cast<const T*>(memory_.data + int64_t{index} * kUnit);
  }
  template <class T>
  int32_t put(const T& value);
  Expression add(const Node& node);
  Expression add_list(ExpressionKind kind, const ExpressionList& list);

  static constexpr int32_t kUnit = 8;  // indices count these

  HostView<std::byte> memory_;
  int64_t used_ = 0;
  Status status_;
};

}  // namespace ocellus
