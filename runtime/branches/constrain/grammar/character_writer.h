// CharacterWriter: characters as expressions, as they are or as JSON writes them inside a string.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/branches/constrain/grammar/character_set.h"
#include "runtime/branches/constrain/grammar/grammar.h"

namespace ocellus {

/// One character, 1 to 6 bytes.
class WrittenCharacter {
 public:
  /// In JSON's strings `"`, `\` and control characters have one spelling: \" \\ \b \f \n \r \t, else \u00xx.
  WrittenCharacter(uint32_t character, bool in_json_string);
  std::string_view text() const { return {bytes_, static_cast<size_t>(count_)}; }

 private:
  char bytes_[8];
  int count_ = 0;
};

/// One character of the set, spelled as WrittenCharacter does. Changes the set; if it is full afterwards, the
/// expression is wrong.
Expression write_character_of(CharacterSet* set, bool in_json_string, Grammar* grammar);

/// Texts of characters that follow each other, in pieces of up to 256 bytes.
class LiteralWriter {
 public:
  LiteralWriter(bool in_json_string, Grammar* grammar) : grammar_(*grammar), in_json_string_(in_json_string) {}

  void add(uint32_t character, ExpressionList* items);
  /// Appends what was added since the last call, if anything was.
  void finish(ExpressionList* items);

 private:
  Grammar& grammar_;
  bool in_json_string_;
  char bytes_[256];
  size_t count_ = 0;
};

}  // namespace ocellus
