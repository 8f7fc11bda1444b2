// Prompt: text and pictures that are added to the engine's prompt chunk, and read into the conversation's cache. While
// rows of it wait, the chunk is lent to it.
//
//   the loan, restoring, reading the chunk     prompt.cpp
//   pictures become rows                       prompt_add.cpp
//
// Text becomes rows in PromptText.
#pragma once

#include <string_view>

#include "runtime/engine/chunk_loan.h"
#include "runtime/session/picture_rows.h"
#include "runtime/session/prompt_text.h"
#include "runtime/session/room.h"

namespace ocellus {

struct TextConfig;

/// kBadArgument names the first token that the model does not have.
Status check_tokens(const TextConfig& config, const TokenId* tokens, int64_t count);

class Prompt final : private ChunkHolder {
 public:
  Prompt(Conversation& conversation, Room& room, PictureRows& pictures)
      : conversation_(conversation), room_(room), pictures_(pictures) {}

  /// Begins every addition: reports an earlier failure or a request to stop, borrows the chunk, and puts the token that
  /// was generated last and not read yet in front of the addition.
  Status start();
  /// Messages and their texts.
  PromptText& text() { return text_; }
  Status add_tokens(const TokenId* tokens, int64_t count);
  /// Adds a whole picture or nothing; on failure text before it that had to be read is dropped as well.
  Status add_picture(const Picture& picture, bool is_numbered = false);
  /// Adds a picture that the session's store has under this name.
  Status add_named_picture(std::string_view name, bool is_numbered = false);

  /// The state of this prompt, and the way back to it; if something was read since, back to the last answer.
  Checkpoint mark() const;
  void go_back(const Checkpoint& to);
  /// Returns to the last answer.
  void forget();

  /// Reads the waiting rows. On failure the prompt is dropped, and the earlier conversation stays.
  Status read();
  /// Reads everything for an answer, so that the newest row can be answered.
  Status read_to_answer();
  /// Prepares an answer that goes on after it was cut: a decode step will read its newest token.
  Status read_nothing();
  /// True if the chunk is lent to this prompt, with or without rows that wait.
  bool holds_chunk() const;
  RowNeed waiting() const;
  /// Gives the chunk back unread, and drops a failure that was not reported yet.
  void reset();

 private:
  friend class PromptText;
  void yield_chunk() override { deferred_ = read(); }
  void give_back();
  Status read_and_borrow();
  PromptChunk& chunk() const;
  int64_t rows_in_chunk(const ViewPlan& plan) const;
  Status make_room(const RowNeed& need);
  Status roll(const RowNeed& need);
  Status add_start_token();
  Status append(const TokenId* tokens, int64_t count);
  template <class Add>
  Status add_views(const ViewPlan& plan, const PictureRole& role, const Add& add);
  Status prepare_picture(const ViewPlan& plan, const PictureRole& role, int64_t* marks);
  Status begin_picture(const ViewPlan& plan, const PictureRole& role, int64_t marks);
  Status end_picture(Status status, const Checkpoint& before);

  Conversation& conversation_;
  Room& room_;
  PictureRows& pictures_;
  PromptText text_{conversation_, room_, *this};
  Status deferred_;    // failure of rows that were read because another prompt needed the chunk
  int64_t reads_ = 0;  // times the chunk was read, so that marks know whether it was read since
};

}  // namespace ocellus
