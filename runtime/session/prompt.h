// Prompt: text and pictures that are added to the engine's prompt chunk, and read into the conversation's cache. While
// rows of it wait, the chunk is lent to it.
//
//   the loan, restoring, reading the chunk     prompt.cpp
//   text becomes rows                          prompt_text.cpp
//   pictures become rows                       prompt_add.cpp
//
// Text waits until it is known what follows it: a special token, a picture or the answer.
#pragma once

#include <algorithm>
#include <string_view>

#include "runtime/engine/chunk_loan.h"
#include "runtime/models/message_writer.h"
#include "runtime/session/reuse.h"
#include "runtime/session/room.h"

namespace ocellus {

struct TextConfig;

/// Leaves the tokens of a text in EngineMemory::token_ids. `continues`: it follows other text directly.
Status encode_text(Engine& engine, std::string_view text, bool continues, int64_t* count);

/// kBadArgument names the first token that the model does not have.
Status check_tokens(const TextConfig& config, const TokenId* tokens, int64_t count);

/// Keeps the text that waits as it is until the end of the scope, to return to it.
class KeptText {
 public:
  explicit KeptText(Conversation& conversation) : conversation_(conversation), outer_(conversation.text_floor()) {
    conversation.text_floor() = conversation.state().text.end;
  }
  ~KeptText() {
    conversation_.text_floor() = std::min(outer_, conversation_.text_floor());
    conversation_.text().settle();
  }
  KeptText(const KeptText&) = delete;
  KeptText& operator=(const KeptText&) = delete;

 private:
  Conversation& conversation_;
  int64_t outer_;
};

/// How a picture stands in a message.
struct PictureRole {
  bool is_frame = false;  // of a clip, which is the part
  bool is_numbered = false;
};

class Prompt final : private ChunkHolder, private PromptSink {
 public:
  Prompt(Conversation& conversation, Room& room, PictureRows& pictures, Reuse& reuse)
      : conversation_(conversation), room_(room), pictures_(pictures), reuse_(reuse) {}

  /// Begins every addition: reports an earlier failure or a request to stop, borrows the chunk, and puts the token that
  /// was generated last and not read yet in front of the addition.
  Status start();
  /// Begins and ends messages in the model's layout: see MessageWriter.
  Status begin_message(Role role);
  Status end_message();
  Status open_answer();
  /// Adds the text before an answer, before which everything is read and compressed.
  Status add_closing(const char* text);
  /// Adds a part of the open message, or a raw text if there is none. All of it or nothing.
  Status add_text(std::string_view text, bool parse_special);
  /// Adds words around the frames of a clip.
  Status add_words(std::string_view text);
  Status add_tokens(const TokenId* tokens, int64_t count);
  /// Tokenises the text that waits.
  Status flush();
  Status flush_waiting() { return conversation_.text().empty() ? Status() : start_and_flush(); }
  /// Adds a whole picture or nothing; on failure text before it that had to be read is dropped as well.
  Status add_picture(const Picture& picture, bool is_numbered = false);
  Status begin_clip(bool is_numbered);
  Status end_clip(bool is_numbered);
  /// See ocellus_session_add_library_image.
  Status add_library_image(const LibraryKey& key, bool is_numbered = false);

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
  void yield_chunk() override { deferred_ = read(); }
  void give_back();
  Status read_and_borrow();
  PromptChunk& chunk() const;
  Status make_room(const RowNeed& need);
  Status roll(const RowNeed& need);
  Status add_start_token();
  Status start_and_flush() {
    OCELLUS_TRY(start());
    return flush();
  }
  Status write(std::string_view text, bool parse_special) override;
  Status write_head(std::string_view text) override;
  void end_head() override { conversation_.text().end_head(); }
  Status add_seam() override { return flush(); }
  MessageWriter writer();
  template <class Write>
  Status write_whole(Write write);
  Status wait(std::string_view text);
  Status flush_head();
  Status append(const TokenId* tokens, int64_t count);
  Status append_encoded(int64_t first, int64_t count);
  Status append_control(TokenId token);
  Status write_line_breaks(int32_t count);
  Status count_before(const ViewPlan& plan, const PictureRole& role, int64_t* count);
  Status write_before(const ViewPlan& plan, const PictureRole& role);
  Status write_after(const ViewPlan& plan, const PictureRole& role);
  Status prepare_picture(const ViewPlan& plan, const PictureRole& role);
  Status begin_picture(const ViewPlan& plan, const PictureRole& role);
  Status end_picture(Status status, const Checkpoint& before);

  Conversation& conversation_;
  Room& room_;
  PictureRows& pictures_;
  Reuse& reuse_;
  Status deferred_;    // failure of rows that were read because another prompt needed the chunk
  int64_t reads_ = 0;  // times the chunk was read, so that marks know whether it was read since
};

}  // namespace ocellus
