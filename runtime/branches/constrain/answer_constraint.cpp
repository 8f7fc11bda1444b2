#include "runtime/branches/constrain/answer_constraint.h"

#include <algorithm>

#include "runtime/engine/engine.h"
#include "runtime/session/conversation.h"

namespace ocellus {
namespace {

/// Masks of more steps are not made for guesses.
constexpr int64_t kGuessedMaskSteps = kMostMaskSteps / 16;

/// True if the prompt ends as the text before an answer does ("Assistant:"), not in the middle of an answer.
bool ends_as_a_question(Conversation& conversation) {
  const int64_t count = conversation.state().recent_count;
  if (count == 0) return false;
  const TokenId newest = conversation.recent_tokens()[(count - 1) % kRecentTokens];
  const std::string_view text = conversation.engine().tokenizer().piece(newest, true);
  const std::string_view end = conversation.engine().model().layout().end_of_question();
  return !text.empty() && (end.ends_with(text) || text.ends_with(end));
}

}  // namespace

Status AnswerConstraint::begin(ConstraintSlot* slot, ConstraintState* state, bool goes_on, const StopSignal* stop) {
  state_ = state;
  state_->stop = stop;
  if (goes_on) {
    if (state_->slot == slot && state_->serial == slot->serial) return {};
    return OCELLUS_FAIL(Code::kBadArgument,
                        "an answer that was cut goes on under the constraint with which it began: give that one");
  }
  state_->forced = {};
  state_->slot = slot;
  state_->serial = slot->serial;
  state_->is_begun = false;
  state_->is_complete = false;
  state_->mask_steps = 0;
  memory().begin_steps(stop);
  memory().matcher().begin(slot->constraint.automaton());
  OCELLUS_TRY(memory().meter().status());
  return memory().matcher().store(&state_->match);
}

Status AnswerConstraint::follow(Conversation& conversation) {
  if (!state_->slot->allows_a_space || ends_as_a_question(conversation)) return {};
  state_->is_begun = true;
  Matcher& matcher = memory().matcher();
  memory().begin_steps(state_->stop);
  matcher.load(state_->slot->constraint.automaton(), state_->match);
  (void)matcher.advance(static_cast<uint8_t>(' '));
  OCELLUS_TRY(memory().meter().status());
  return matcher.store(&state_->match);
}

/// Finds the tokens that are forced there once for all that the step does at that place.
Status AnswerConstraint::load() {
  memory().begin_steps(state_->stop);
  memory().matcher().load(state_->slot->constraint.automaton(), state_->match);
  memory().forced() = state_->forced;
  OCELLUS_TRY(memory().find_forced());
  state_->forced = memory().forced();
  return {};
}

bool AnswerConstraint::advance(TokenId token) {
  return memory().matcher().advance(token, memory().tokens().tokenizer().piece(token, false));
}

/// Moves the place by a token that is not forced, if it may come.
bool AnswerConstraint::try_move(TokenId token) {
  if (!memory().tokens().may_name(token) || !advance(token)) return false;
  memory().forced() = {};
  return true;
}

Status AnswerConstraint::check_guesses(TokenId* tokens, int32_t guessed, int32_t most, int32_t* kept, int32_t* forced) {
  OCELLUS_TRY(load());
  *forced = 0;
  if (state_->mask_steps > kGuessedMaskSteps) guessed = 0;
  for (*kept = 0; *kept < most; ++*kept) {
    OCELLUS_TRY(memory().find_forced());
    TokenId& token = tokens[*kept];
    if (memory().forced().any()) {
      const TokenId next = memory().forced().token();
      if (*kept >= guessed || token != next) guessed = *kept + 1;
      token = next;
      if (*forced == *kept) ++*forced;
      move(token);
    } else if (*kept >= guessed || !try_move(token)) {
      break;
    }
  }
  return memory().meter().status();
}

/// A token that is forced is the only one of its mask, so that sampling chooses it.
Status AnswerConstraint::write_mask(uint32_t* mask) {
  OCELLUS_TRY(memory().find_forced());
  if (memory().forced().any()) {
    const TokenId token = memory().forced().token();
    std::fill(mask, mask + memory().tokens().words(), 0);
    add_token(mask, token);
    return {};
  }
  const StepMeter& meter = memory().begin_steps(state_->stop);
  const int32_t found = state_->slot->constraint.fill_mask(&memory().matcher(), memory().tokens(), mask);
  state_->mask_steps += meter.taken();
  OCELLUS_TRY(meter.status());
  if (found > 0) return {};
  return OCELLUS_FAIL(
      Code::kUnsupported,
      "no token may follow the answer: the constraint nests deeper than %d calls, or can be read in more "
      "than %d ways",
      kMaxCallDepth, kMaxHeads);
}

Status AnswerConstraint::write_masks(int32_t own, const GuessedRows& guesses, const TokenId* tokens, TokenId thought,
                                     HostView<uint32_t> masks) {
  OCELLUS_TRY(load());
  state_->mask_steps = 0;
  for (int32_t k = 0; k <= guesses.count; ++k) {
    uint32_t* const mask = masks.row(k == 0 ? own : guesses.first + k - 1);
    std::fill(mask + memory().tokens().words(), mask + masks.cols, 0);  // vocabularies may be padded
    OCELLUS_TRY(write_mask(mask));
    if (thought != kNoToken) add_token(mask, thought);
    if (k == guesses.count) break;
    move(tokens[guesses.first + k]);
    OCELLUS_TRY(memory().meter().status());
  }
  return {};
}

void AnswerConstraint::write_thought_mask(uint32_t* mask, int64_t words) const {
  const TokenTrie& tokens = memory().tokens();
  std::fill(mask, mask + words, 0);  // vocabularies may be padded
  const int64_t count = tokens.tokenizer().token_count();
  const int64_t whole = count / kMaskTokens;
  std::fill(mask, mask + whole, ~uint32_t{0});
  for (int64_t token = whole * kMaskTokens; token < count; ++token) add_token(mask, token);
  for (int64_t i = 0; i < tokens.ends().cols; ++i) remove_token(mask, tokens.ends().data[i]);
}

void AnswerConstraint::move(TokenId token) {
  advance(token);
  ForcedTokens& forced = memory().forced();
  if (forced.any()) ++forced.next;
  if (!forced.any()) forced = {};
}

std::string_view AnswerConstraint::text_of(TokenId token) const {
  const std::string_view text = memory().tokens().tokenizer().piece(token, false);
  const bool is_before = !state_->is_begun && state_->slot->allows_a_space && text.starts_with(' ');
  return is_before ? text.substr(1) : text;
}

/// The forced tokens are found as they were when the mask was written.
Status AnswerConstraint::accept(TokenId token) {
  OCELLUS_TRY(load());
  state_->is_begun = true;
  move(token);
  OCELLUS_TRY(memory().meter().status());
  state_->forced = memory().forced();
  const Matcher& matcher = memory().matcher();
  state_->is_complete = matcher.accepts() && matcher.next_bytes().empty();
  return memory().matcher().store(&state_->match);
}

}  // namespace ocellus
