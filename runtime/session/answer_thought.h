// AnswerThought: the thought of one session's answer during a call of generate().
#pragma once

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

  /// See ThoughtMarks.
  TokenId next() const { return marks_->next(*state_); }
  bool may_write_after_next() const { return marks_->may_write_after_next(*state_, most_); }
  ThoughtPart accept(TokenId token) { return marks_->accept(token, most_, state_); }
  int64_t most_left() const { return marks_->most_left(*state_, most_); }
  std::string_view visible(std::string_view text) { return visible_text(text, state_); }
  bool is_open() const { return state_->phase == AnswerPhase::kThought; }

  bool is_written = false;  // the device expects the next token from the host

 private:
  const ThoughtMarks* marks_ = nullptr;
  ThoughtState* state_ = nullptr;
  int32_t most_ = 0;
};

}  // namespace ocellus
