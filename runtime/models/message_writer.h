// MessageWriter: writes what stands around the parts of a conversation's messages, by a PromptLayout.
#pragma once

#include <string_view>

#include "platform/status.h"
#include "runtime/models/prompt_layout.h"

namespace ocellus {

/// Receives a prompt's texts in their order. Those that touch are one text, in which special tokens are seams.
class PromptSink {
 public:
  virtual ~PromptSink() = default;
  /// parse_special: special tokens in it are recognised.
  virtual Status write(std::string_view text, bool parse_special) = 0;
  /// Writes at the place of the next picture, which is before texts that were written since end_head().
  virtual Status write_head(std::string_view text) = 0;
  /// The next picture stands here.
  virtual void end_head() = 0;
  /// The text so far is tokenised apart from what follows.
  virtual Status add_seam() = 0;
};

/// Place in a conversation; a plain value.
struct MessageState {
  Role role = Role::kUser;  // the newest message's
  bool any = false;         // a message was begun
  bool is_first = false;    // the newest one is the first
  bool is_open = false;     // it was not ended
  bool needs_lead = false;  // it has no parts yet
  bool thinks = false;      // the model is told to think
  bool needs_end = false;   // PromptLayout::after_text follows its newest part
  int32_t pictures = 0;     // in all messages
  int32_t clips = 0;

  /// Notes that an answer of the model follows.
  void open_answer() {
    role = Role::kAnswer;
    any = is_open = needs_end = true;
    is_first = needs_lead = false;
  }
};

/// kBadArgument where the layout has no place for a message.
class MessageWriter {
 public:
  MessageWriter(const PromptLayout& layout, MessageState& state, PromptSink& sink)
      : layout_(layout), state_(state), sink_(sink) {}

  /// Begins a message, and ends one that is open: a user's, or an answer that was generated. `usual_system`: the text
  /// of a system message that comes before a first message of another role; empty: none, unless the layout has one.
  Status begin(Role role, std::string_view usual_system = {});
  Status end();
  /// After this the model answers.
  Status open_answer();
  /// Adds a part of the open message, or a raw text if there is none.
  Status add_text(std::string_view text, bool parse_special);
  /// A picture or a clip comes between these two.
  Status begin_picture(bool is_clip, bool is_numbered);
  Status end_picture(bool is_numbered);

 private:
  const MessageText& text_of(Role role) const;
  Status check(Role role) const;
  Status write(std::string_view text) { return sink_.write(text, true); }
  Status write_lead();
  Status write_end();

  const PromptLayout& layout_;
  MessageState& state_;
  PromptSink& sink_;
};

}  // namespace ocellus
