// CharacterWriter: characters as expressions, as they are or as JSON writes them inside a string.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/grammar/character_set.h"
#include "runtime/grammar/grammar.h"

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

}  // namespace ocellus
