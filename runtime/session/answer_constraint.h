// AnswerConstraint: the constraint of one session's answer during a call of generate().
//
// Each step begins with load(): then the place moves along the tokens that the step tries, and a mask is written for
// each. accept() moves the answer itself.
#pragma once

#include "runtime/engine/constraint_memory.h"

namespace ocellus {

class AnswerConstraint {
 public:
  AnswerConstraint() = default;
  /// Null: none. kBadArgument for a constraint of another engine, or another one than the answer that goes on has.
  Status begin(ConstraintMemory* memory, const ocellus_constraint* constraint, int32_t session, bool goes_on);

  bool is_on() const { return slot_ != nullptr; }
  /// Goes to where the answer stands.
  void load();
  /// Of the tokens that are guessed to come next, keeps those that it allows, and puts those it forces in their place;
  /// at most `most`. *forced: the first ones, which are certain. Returns their number.
  Status check_guesses(TokenId* tokens, int32_t guessed, int32_t most, int32_t* kept, int32_t* forced);
  /// Writes the mask of the tokens that may come at the place.
  Status write_mask(uint32_t* mask);
  /// Moves the place by a token that may come.
  void move(TokenId token);
  /// Moves the answer by the token that was sampled.
  Status accept(TokenId token);
  /// True if nothing may follow the newest token.
  bool is_complete() const { return is_complete_; }

 private:
  Status find_forced();
  bool allows(TokenId token);

  ConstraintMemory* memory_ = nullptr;
  ConstraintSlot* slot_ = nullptr;
  ConstraintState* state_ = nullptr;
  ForcedTokens forced_;  // at the place
  bool is_complete_ = false;
};

}  // namespace ocellus
