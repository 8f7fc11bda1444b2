// TextCursor: a place in the text of a pattern or grammar.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "platform/hex_digit.h"
#include "platform/utf8.h"

namespace ocellus {

/// Place in a text, both counted from 1, columns in characters.
struct TextPlace {
  int line = 1, column = 1;
};

inline TextPlace place_of(std::string_view text, size_t byte) {
  TextPlace place;
  for (const char c : text.substr(0, byte)) {
    if (c == '\n')
      place = {place.line + 1, 1};
    else if ((static_cast<uint8_t>(c) & 0xC0) != 0x80)
      ++place.column;
  }
  return place;
}

class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : text_(text) {}

  size_t at() const { return at_; }
  bool at_end() const { return at_ == text_.size(); }
  bool is(char c) const { return !at_end() && text_[at_] == c; }
  bool is(std::string_view word) const { return rest().starts_with(word); }
  bool is_digit() const { return !at_end() && text_[at_] >= '0' && text_[at_] <= '9'; }
  std::string_view rest() const { return {text_.data() + at_, text_.size() - at_}; }

  void skip(size_t bytes) { at_ = std::min(at_ + bytes, text_.size()); }
  bool take(char c) { return is(c) && (skip(1), true); }
  bool take(std::string_view word) { return is(word) && (skip(word.size()), true); }
  /// False at the end and before what is not UTF-8.
  bool take_character(uint32_t* out) {
    int bytes = 0;
    const int32_t character = at_end() ? kInvalidCodePoint : decode_utf8(rest(), &bytes);
    if (character == kInvalidCodePoint) return false;
    *out = static_cast<uint32_t>(character);
    skip(static_cast<size_t>(bytes));
    return true;
  }
  /// Exactly `digits` hexadecimal digits, at most 8; false and no step if there are fewer.
  bool take_hexadecimal(size_t digits, uint32_t* out) {
    uint32_t value = 0;
    if (rest().size() < digits) return false;
    for (const char c : rest().substr(0, digits)) {
      const int digit = hex_digit(c);
      if (digit < 0) return false;
      value = value << 4 | static_cast<uint32_t>(digit);
    }
    *out = value;
    skip(digits);
    return true;
  }
  /// One or more decimal digits; numbers over 10^9 are 10^9.
  bool take_number(int32_t* out) {
    constexpr int64_t kLargest = 1000000000;
    if (!is_digit()) return false;
    int64_t value = 0;
    for (; is_digit(); skip(1)) value = std::min(value * 10 + (text_[at_] - '0'), kLargest);
    *out = static_cast<int32_t>(value);
    return true;
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace ocellus
