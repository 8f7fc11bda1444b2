// GrammarFacts: what is known of each expression of a grammar before machines are made of it.
#pragma once

#include "runtime/branches/constrain/grammar/grammar.h"
#include "runtime/branches/constrain/grammar/growing_array.h"

namespace ocellus {

struct ExpressionFacts {
  Expression expression = kNoExpression;
  int32_t size = 1;           // states of a machine that has it inside, at most kMostSize
  int32_t machine = -1;       // the machine that is made of it; -1: none
  int32_t item_machine = -1;  // the same without the empty text
  bool is_body = false;       // a rule has it
  bool is_called = false;     // a body that is called, not copied
  bool is_regular = false;    // refers to no recursive rule
  bool is_nullable = false;
  bool is_productive = false;         // matches some text
  bool may_begin_with_space = false;  // or with a token that is named
  uint8_t uses = 0;                   // places it is copied to if it is not called: 0, 1 or, for more, 2
};

class GrammarFacts {
 public:
  static constexpr int32_t kMostSize = 1 << 20;
  /// Rules of at most this size are copied to where they are used, larger ones if they are used once.
  static constexpr int32_t kCopiedSize = 64;

  /// Bytes outside `spelled` match nothing: the vocabulary has no token for them. `first`: a bound below all that
  /// `start` refers to.
  Status find(const Grammar& grammar, Expression start, const ByteSet& spelled, Workspace* workspace,
              Expression first = 0);

  const Grammar& grammar() const { return *grammar_; }
  ExpressionFacts& of(Expression e) { return facts_[number_of_[e - first_]]; }
  const ExpressionFacts& of(Expression e) const { return facts_[number_of_[e - first_]]; }
  /// True if a state of an automaton leads to its end.
  bool leads(const Grammar::Node& automaton, int32_t state) const {
    return number_of_[mark_of(automaton, state)] == kLeads;
  }
  const ByteSet& spelled() const { return spelled_; }
  /// Adds the bytes that texts of a regular expression begin with; false if that takes more than *budget visits, or
  /// nests too deep.
  bool add_first_bytes(Expression e, ByteSet* out, int32_t* budget, int depth = 0) const;

 private:
  struct Visit {
    Expression expression = kNoExpression;
    int32_t next = kNoExpression;  // cell of a list's next item, or the only child
  };
  static constexpr int kMaxFirstDepth = 200;
  static constexpr int32_t kLeads = -3;  // in place of the number of an expression
  Status settle();
  Status list_expressions(Expression start, Workspace* workspace);
  bool open(Expression e, GrowingArray<Visit>* stack);
  bool find_leads(const Grammar::Node& node);
  /// Units of the text of an automaton's states have no numbers, so that marks fit there.
  int64_t mark_of(const Grammar::Node& automaton, int32_t state) const {
    return int64_t{grammar_->node(automaton.a).a} + state - first_;
  }
  bool find_once(ExpressionFacts* facts);
  void find_sizes();
  int64_t size_of(const Grammar::Node& node) const;
  void find_called(Expression start);
  bool spells(std::string_view text) const;

  const Grammar* grammar_ = nullptr;
  ByteSet spelled_;
  Expression first_ = 0;
  GrowingArray<int32_t> number_of_;      // by expression; of an automaton's states kLeads or below 0
  GrowingArray<ExpressionFacts> facts_;  // parts before what they are parts of, except in circles of rules
};

}  // namespace ocellus
