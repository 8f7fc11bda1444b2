// RegexEscape: a backslash in a regular expression and what follows it.
#pragma once

#include <cstdint>

#include "platform/status.h"
#include "runtime/branches/constrain/grammar/character_set.h"
#include "runtime/branches/constrain/grammar/text_cursor.h"

namespace ocellus {

/// Place of an escape in a pattern.
enum class EscapePlace : uint8_t { kAlone, kClass, kNegatedClass };

class RegexEscape {
 public:
  /// Counts categories to *categories, which are bounded.
  explicit RegexEscape(int* categories) : categories_(*categories) {}
  /// Reads from the backslash on: a character, or a class whose characters are added to the set. False if it is
  /// refused.
  bool read(TextCursor* text, EscapePlace place, CharacterSet* set);

  /// Called before the items of a class.
  void begin_class() { shorthands_ = 0; }
  /// True if a class had \d and \D, or the like: it holds all characters.
  bool has_opposites() const { return (shorthands_ & shorthands_ >> 8 & 7) != 0; }

  bool is_set() const { return is_set_; }
  uint32_t character() const { return character_; }
  /// Reason of a refusal.
  Code code() const { return code_; }
  const char* sentence() const { return sentence_; }

 private:
  bool refuse(const char* sentence, Code code = Code::kUnsupported);
  bool read_letter(char letter, EscapePlace place, CharacterSet* set);
  bool read_number(TextCursor* text, char letter);
  bool read_shorthand(char letter, bool in_negated_class, CharacterSet* set);
  bool count_category();
  bool read_category(TextCursor* text, bool is_negated, CharacterSet* set);

  uint32_t character_ = 0;
  bool is_set_ = false;
  uint32_t shorthands_ = 0;  // seen in the class: \d \w \s in bits 0 to 2, \D \W \S in 8 to 10
  int& categories_;
  Code code_ = Code::kOk;
  const char* sentence_ = "";
};

}  // namespace ocellus
