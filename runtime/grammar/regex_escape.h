// RegexEscape: a backslash in a regular expression and what follows it.
#pragma once

#include <cstdint>

#include "platform/status.h"
#include "runtime/grammar/character_set.h"
#include "runtime/grammar/text_cursor.h"

namespace ocellus {

class RegexEscape {
 public:
  /// Reads from the backslash on: a character, or a class whose characters are added to the set. False if it is
  /// refused.
  bool read(TextCursor* text, bool in_class, CharacterSet* set);

  bool is_set() const { return is_set_; }
  uint32_t character() const { return character_; }
  /// Reason of a refusal.
  Code code() const { return code_; }
  const char* sentence() const { return sentence_; }

 private:
  bool refuse(const char* sentence, Code code = Code::kUnsupported);
  bool read_letter(char letter, bool in_class, CharacterSet* set);
  bool read_number(TextCursor* text, char letter);
  bool read_category(TextCursor* text, bool is_negated, CharacterSet* set);

  uint32_t character_ = 0;
  bool is_set_ = false;
  int categories_ = 0;  // so far, of the whole pattern
  Code code_ = Code::kOk;
  const char* sentence_ = "";
};

}  // namespace ocellus
