// Prompt layouts: what stands around the contents of a conversation in the form that a model was trained with. They are
// rows of data, chosen by the family, the form of the turns, and marks in the file's own chat template; the Jinja
// program itself is not run.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/vocabulary/chat_template.h"

namespace ocellus {

enum class Role : uint8_t { kSystem, kUser, kAnswer };

/// Texts around the parts of a message.
struct MessageText {
  const char* before = "";
  const char* after = "";
  const char* lead = "";  // after `before`, unless the first part is a picture; a clip is none
};

/// Texts around a picture or a clip, besides the marks of its family.
struct PictureText {
  const char* before = "";
  const char* after = "";
};

/// Roles whose texts lose the white space at both ends.
inline constexpr uint8_t kTrimsSystem = 1, kTrimsUser = 2, kTrimsAnswer = 4;

/// A conversation is `start` and then its messages. An answer of the model follows `opens_answer`, and is ended by
/// answer.after when another message comes. The beginning-of-text token is not part of the texts:
/// VocabularyFacts::add_bos says whether it comes first. All of it is tokenised as one text, in which only special
/// tokens and pictures are seams.
struct PromptLayout {
  const char* start = "";
  MessageText system = {}, user = {}, answer = {};
  MessageText later_system = {};  // stands around a system message after others; empty: the same
  const char* opens_answer = "";
  const char* after_text = "";  // after each text part
  PictureText picture = {};
  const char* picture_number = "Image %d: ";  // before a picture that is numbered
  const char* clip_number = "Video %d: ";
  const char* after_numbered = "\n";
  const char* system_text = "";       // a conversation without a system message has this one
  bool begins_with_system = false;    // it has an empty one if there is no such text
  const char* opens_thinking = "";    // begins the system message of conversations in which the model thinks
  const char* opens_thought = "";     // in their place of opens_answer; empty: the same
  bool joins_system = false;          // a system message is the beginning of the user's message after it
  bool joins_answers = false;         // consecutive answers have the first one's `before` only
  bool refuses_later_system = false;  // there is no place for a system message after another message
  bool alternates = false;            // users' messages and answers take turns, the user's first
  bool pictures_first = false;        // pictures of a message come before its texts
  bool numbers_several = false;       // pictures are numbered if a message has several
  bool is_plain = false;              // Ocellus' own form: texts are tokenised apart, see VisionFamily::plain_views
  uint8_t trims = 0;

  /// The text with which an answer is asked for ends like this, too.
  std::string_view end_of_question() const { return opens_answer[0] != '\0' ? opens_answer : user.after; }
  const char* text_before_answer(bool thinks) const {
    return thinks && opens_thought[0] != '\0' ? opens_thought : opens_answer;
  }
};

/// Returns the layout of a model. `family`: Family::name, empty without a vision part. `jinja`: the file's chat
/// template, may be empty.
const PromptLayout& find_layout(std::string_view family, ChatTemplate form, std::string_view jinja);

/// True if an answer begins with a space, as the text before it ends without white space ("Assistant:").
bool answers_with_space(const PromptLayout& layout);
/// True if that space is to be written before the text of an answer: SentencePiece vocabularies put it there
/// themselves.
bool begins_with_space(const PromptLayout& layout, VocabularyKind kind);

}  // namespace ocellus
