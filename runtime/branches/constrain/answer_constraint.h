// AnswerConstraint: the constraint of one session's answer during a call of generate().
//
// Each step begins where the answer stands: then the place moves along the tokens that the step tries, and a mask is
// written for each. accept() moves the answer itself.
#pragma once

#include "runtime/branches/constrain/constraint_memory.h"
#include "runtime/engine/branch.h"

namespace ocellus {

class AnswerConstraint final : public AnswerForm, public SetUpObject {
 public:
  /// See AnswerForms; `state` is the session's.
  Status begin(ConstraintSlot* slot, ConstraintState* state, bool goes_on, const StopSignal* stop);

  /// No space may come before what the constraint describes unless the prompt asks for an answer there, as its layout
  /// says.
  Status follow(Conversation& conversation) override;
  /// No guesses where masks take long.
  Status check_guesses(TokenId* tokens, int32_t guessed, int32_t most, int32_t* kept, int32_t* forced) override;
  Status write_masks(int32_t own, const GuessedRows& guesses, const TokenId* tokens, TokenId thought,
                     HostView<uint32_t> masks) override;
  void write_thought_mask(uint32_t* mask, int64_t words) const override;
  /// Without a space before what the constraint describes.
  std::string_view text_of(TokenId token) const override;
  Status accept(TokenId token) override;
  bool is_complete() const override { return state_->is_complete; }

 private:
  /// Goes to where the answer stands.
  Status load();
  bool try_move(TokenId token);
  /// Writes the mask of the tokens that may come at the place.
  Status write_mask(uint32_t* mask);
  /// Moves the place by a token that may come.
  void move(TokenId token);
  bool advance(TokenId token);

  ConstraintMemory& memory() const { return *state_->slot->owner; }

  ConstraintState* state_ = nullptr;
};

}  // namespace ocellus
