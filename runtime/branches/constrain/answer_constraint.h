// AnswerConstraint: the constraint of one session's answer during a call of generate().
//
// Each step begins with load(): then the place moves along the tokens that the step tries, and a mask is written for
// each. accept() moves the answer itself.
#pragma once

#include "kernels/sampling/guess_rows.h"
#include "runtime/branches/constrain/constraint_memory.h"
#include "runtime/session/conversation.h"

namespace ocellus {

class AnswerConstraint {
 public:
  AnswerConstraint() = default;
  /// Null: none. `stop` ends what takes long in it, in this call and the following ones. kBadArgument for a constraint
  /// of another engine, or another one than the answer that goes on has.
  Status begin(ConstraintMemory* memory, const ocellus_constraint* constraint, int32_t session, bool goes_on,
               const StopSignal* stop = nullptr);

  /// After the prompt of a new answer was read: no space may come before what the constraint describes unless the
  /// prompt asks for an answer there, as its layout says.
  Status follow(Conversation& conversation);

  bool is_on() const { return state_ != nullptr; }
  /// Goes to where the answer stands.
  Status load();
  /// Keeps those of the tokens that are guessed to come next that it allows, and puts those it forces in their place,
  /// at most `most`: the first *kept, of which the first *forced are certain. No guesses where masks take long.
  Status check_guesses(TokenId* tokens, int32_t guessed, int32_t most, int32_t* kept, int32_t* forced);
  /// Writes the masks of a step's rows: of the answer's own, and of its guesses, whose tokens are by row. `thought`: a
  /// token that may come besides, with which a thought begins; kNoToken: none.
  Status write_masks(int32_t own, const GuessedRows& guesses, const TokenId* tokens, TokenId thought,
                     HostView<uint32_t> masks);
  /// Writes the mask of a token of a thought, which is free but may not end the answer.
  void write_thought_mask(uint32_t* mask, int64_t words) const;
  /// Returns a sampled token's text without a space before what the constraint describes. Call it before accept().
  std::string_view text_of(TokenId token) const;
  /// Moves the answer by the token that was sampled.
  Status accept(TokenId token);
  /// True if nothing may follow the newest token.
  bool is_complete() const { return is_on() && state_->is_complete; }

 private:
  bool try_move(TokenId token);
  /// Writes the mask of the tokens that may come at the place.
  Status write_mask(uint32_t* mask);
  /// Moves the place by a token that may come.
  void move(TokenId token);
  bool advance(TokenId token);

  ConstraintMemory& memory() const { return *state_->slot->owner; }

  ConstraintState* state_ = nullptr;  // all there is of it: a batch on the stack has a thousand
};

}  // namespace ocellus
