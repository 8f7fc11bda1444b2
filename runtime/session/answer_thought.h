// AnswerThought: the thought of one session's answer during a call of generate().
#pragma once

#include <algorithm>

#include "runtime/ocellus.h"
#include "runtime/vocabulary/thought.h"

namespace ocellus {

class AnswerThought {
 public:
  AnswerThought() = default;
  /// `state` is the conversation's, and goes on in later calls.
  AnswerThought(const ThoughtMarks& marks, const ocellus_generate_params& params, ThoughtState* state)
      : marks_(&marks),
        state_(state),
        most_(params.max_thought_tokens < 0 ? marks.standard_tokens() : params.max_thought_tokens) {}

  /// True before the first token, if a thought may follow.
  bool is_ahead() const { return state_->phase == AnswerPhase::kStart; }
  /// Bounds a thought that is ahead by the session's room for it and an answer of up to `answer` tokens, which gets as
  /// many of them as half of the room holds.
  void leave_room(int64_t room, int64_t answer) {
    const int64_t left = std::max<int64_t>(room - marks_->mark_tokens(), 0);
    state_->most = static_cast<int32_t>(std::min<int64_t>(left - std::min(answer, left / 2), INT32_MAX));
  }

  /// See ThoughtMarks.
  TokenId next() const { return marks_->next(*state_); }
  bool may_write_after_next() const { return marks_->may_write_after_next(*state_, most()); }
  ThoughtPart accept(TokenId token) { return marks_->accept(token, most(), state_); }
  int64_t most_left() const { return marks_->most_left(*state_, most()); }
  std::string_view visible(std::string_view text) { return visible_text(text, state_); }
  /// True if the runtime writes nothing more.
  bool is_past() const { return state_->phase == AnswerPhase::kAnswer; }
  bool is_open() const { return state_->phase == AnswerPhase::kThought; }

  bool is_written = false;  // the device expects the next token from the host

 private:
  int32_t most() const { return std::min(most_, state_->most); }

  const ThoughtMarks* marks_ = nullptr;
  ThoughtState* state_ = nullptr;
  int32_t most_ = 0;
};

}  // namespace ocellus
