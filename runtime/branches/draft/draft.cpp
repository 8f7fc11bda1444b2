#include "runtime/branches/draft/draft.h"

#include <algorithm>

namespace ocellus {

TokenId Draft::at(int64_t number) const {
  if (source_ == Source::kSaid) return number < said_count_ ? memory_.said[number] : kNoToken;
  if (source_ == Source::kHistory && number < history_end_) return memory_.history[number % memory_.capacity];
  return kNoToken;
}

void Draft::begin(ocellus_draft kind, uint64_t prompt) {
  prompt_ = prompt;
  uses_said_ = (kind == OCELLUS_DRAFT_AUTO || kind == OCELLUS_DRAFT_LAST) && said_count_ > 0 && said_prompt_ == prompt;
  uses_history_ = kind == OCELLUS_DRAFT_AUTO || kind == OCELLUS_DRAFT_LOOKUP;
  weighs_ = kind == OCELLUS_DRAFT_AUTO;
  source_ = uses_said_ ? Source::kSaid : Source::kNone;
  next_ = 0;
  right_ = 0;
}

void Draft::keep_answer(int64_t begin, int64_t count, TokenId last) {
  said_prompt_ = prompt_;
  said_count_ = 0;
  const int64_t oldest = std::max(begin, count - memory_.capacity);
  for (int64_t i = oldest; i < count; ++i) memory_.said[said_count_++] = memory_.history[i % memory_.capacity];
  if (last != kNoToken && said_count_ < memory_.capacity) memory_.said[said_count_++] = last;
}

void Draft::note(int64_t count, TokenId token) {
  if (!is_on()) return;
  history_end_ = count;
  const TokenId guessed = at(next_);
  if (guessed == kNoToken) return align(count, token);
  Chance& chance = chances_[chance_after(right_)];
  constexpr float kKept = 0.97f;
  chance.tried = kKept * chance.tried + 1;
  chance.right = kKept * chance.right + (guessed == token ? 1 : 0);
  if (guessed != token) {
    right_ = 0;
    return align(count, token);
  }
  ++right_;
  ++next_;
}

/// Finds where to go on after a token that was not guessed. A word may have taken another one's place in what was said
/// last, so that is followed further even if it does not have the newest two tokens.
void Draft::align(int64_t count, TokenId token) {
  const bool followed = source_ == Source::kSaid && at(next_) != kNoToken;
  const TokenId before = count > 0 ? memory_.history[(count - 1) % memory_.capacity] : kNoToken;
  if (uses_said_ && align_said(before, token)) return;
  if (followed) {
    ++next_;
    return;
  }
  source_ = Source::kNone;
  if (uses_history_) align_history(count, before, token);
}

bool Draft::align_said(TokenId before, TokenId token) {
  const int64_t from = source_ == Source::kSaid ? next_ : 0;
  const auto found = [&](int64_t i) { return memory_.said[i] == token && memory_.said[i - 1] == before; };
  int64_t place = 0;
  for (int64_t i = std::max<int64_t>(from, 1); i < said_count_ && place == 0; ++i)
    if (found(i)) place = i;
  for (int64_t i = std::min(from, said_count_) - 1; i > 0 && place == 0; --i)
    if (found(i)) place = i;
  if (place == 0) return false;
  source_ = Source::kSaid;
  next_ = place + 1;
  return true;
}

/// The newest place counts.
bool Draft::align_history(int64_t count, TokenId before, TokenId token) {
  const auto token_at = [&](int64_t i) { return memory_.history[i % memory_.capacity]; };
  const int64_t oldest = std::max<int64_t>(count - memory_.capacity, 0);
  for (int64_t i = count - 2; i > oldest; --i)
    if (token_at(i) == token && token_at(i - 1) == before) {
      source_ = Source::kHistory;
      next_ = i + 1;
      return true;
    }
  return false;
}

Status Draft::propose(int32_t most, int64_t rows, AnswerForm* form, TokenId* tokens, int32_t* count) {
  int32_t guessed = guess(most, tokens), forced = 0;
  if (form != nullptr) OCELLUS_TRY(form->check_guesses(tokens, guessed, most, &guessed, &forced));
  *count = std::max(forced, worth_trying(guessed, rows));
  return {};
}

int32_t Draft::guess(int32_t most, TokenId* out) const {
  int32_t count = 0;
  while (count < most && at(next_ + count) != kNoToken) {
    out[count] = at(next_ + count);
    ++count;
  }
  return count;
}

int32_t Draft::worth_trying(int32_t most, int64_t rows) const {
  const float alone = times_->of(rows);
  if (!weighs_ || alone == 0) return most;
  constexpr float kWorthIt = 1.15f;  // times and chances are estimates, and trying costs
  int32_t best = 0;
  float best_rate = kWorthIt / alone, expected = 1, reached = 1;
  for (int32_t i = 1; i <= most; ++i) {
    const Chance& chance = chances_[chance_after(right_ + i - 1)];
    reached *= chance.right / chance.tried;
    expected += reached;
    const float rate = expected / times_->of(rows + i);
    if (rate > best_rate) {
      best = i;
      best_rate = rate;
    }
  }
  return best;
}

}  // namespace ocellus
