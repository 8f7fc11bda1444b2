// PromptText: messages and their texts, which become rows of the prompt chunk. Text waits until it is known what
// follows it: a special token, a picture or the answer.
#pragma once

#include <algorithm>
#include <string_view>

#include "runtime/models/message_writer.h"
#include "runtime/session/conversation.h"

namespace ocellus {

class Prompt;
class Room;

/// Leaves the tokens of a text in EngineMemory::token_ids. `continues`: it follows other text directly.
Status encode_text(Engine& engine, std::string_view text, bool continues, int64_t* count);

/// Keeps the text that waits as it is until the end of the scope, to return to it.
class KeptText {
 public:
  explicit KeptText(Conversation& conversation) : conversation_(conversation), outer_(conversation.text().floor()) {
    conversation.text().floor() = conversation.state().text.end;
  }
  ~KeptText() {
    WaitingText text = conversation_.text();
    text.floor() = std::min(outer_, text.floor());
    text.settle();
  }
  KeptText(const KeptText&) = delete;
  KeptText& operator=(const KeptText&) = delete;

 private:
  Conversation& conversation_;
  int64_t outer_;
};

/// Place of a picture in a message.
struct PictureRole {
  bool is_frame = false;  // a frame is no part of its own, but its clip is
  bool is_numbered = false;
};

class PromptText final : private PromptSink {
 public:
  PromptText(Conversation& conversation, Room& room, Prompt& prompt)
      : conversation_(conversation), room_(room), prompt_(prompt) {}

  /// Begins and ends messages in the model's layout: see MessageWriter. Each call adds all of its text or nothing.
  Status begin_message(Role role);
  Status end_message();
  Status open_answer();
  /// Ends the user's message and opens the answer.
  Status end_turn();
  /// See ocellus_session_let_think.
  Status let_think(bool thinks);
  /// Adds a part of the open message, or a raw text if there is none.
  Status add(std::string_view text, bool parse_special);
  /// Adds words around the frames of a clip.
  Status add_words(std::string_view text);
  Status begin_clip(bool is_numbered);
  Status end_clip(bool is_numbered);
  /// Counts the tokens of the text before a picture, as it will be.
  Status count_before(const ViewPlan& plan, const PictureRole& role, int64_t* count);
  /// Tokenises the text before a picture; that after it waits.
  Status begin_picture(const ViewPlan& plan, const PictureRole& role);
  /// Tokenises the text that waits.
  Status flush();

 private:
  Status write(std::string_view text, bool parse_special) override;
  Status write_head(std::string_view text) override;
  void end_head() override { conversation_.text().end_head(); }
  Status add_seam() override { return flush(); }
  MessageWriter writer();
  template <class Write>
  Status write_whole(Write write);
  Status add_closing(const char* text);
  Status wait(std::string_view text);
  Status flush_head();
  Status flush_raw();
  Status write_answer();
  Status write_line_breaks(int32_t count);
  Status write_before(const ViewPlan& plan, const PictureRole& role);
  Status write_after(const ViewPlan& plan, const PictureRole& role);
  Status append_encoded(int64_t first, int64_t count);
  Status append_control(TokenId token);

  Conversation& conversation_;
  Room& room_;
  Prompt& prompt_;
};

}  // namespace ocellus
