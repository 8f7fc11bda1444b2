// Token codes: tokens as texts of bytes that no UTF-8 has, so that a grammar may name one among its characters.
//
// Automata are made of bytes alone; a code is walked like any other text. Only a whole token is read as its code, and
// no token whose text has such bytes is read as text.
#pragma once

#include <string_view>

#include "runtime/branches/constrain/grammar/grammar.h"

namespace ocellus {

struct TokenCode {
  static constexpr uint8_t kMark = 0xFF;        // begins a code
  static constexpr uint8_t kFirstDigit = 0xF5;  // digits to the base 8
  static constexpr int kBase = 8, kDigits = 7;
  static constexpr int32_t kMostTokens = 1 << 21;  // 8^7

  /// The digit at `place`, 0 the first.
  static constexpr uint8_t digit(int32_t token, int place) {
    return static_cast<uint8_t>(kFirstDigit + (token >> 3 * (kDigits - 1 - place)) % kBase);
  }
  static constexpr bool is_in(std::string_view text) {
    for (const char c : text)
      if (static_cast<uint8_t>(c) >= kFirstDigit) return true;
    return false;
  }
  static constexpr ByteSet digits() { return ByteSet().add_range(kFirstDigit, kFirstDigit + kBase - 1); }
};

/// The token, or any other one; `token` is below TokenCode::kMostTokens.
Expression add_token_code(Grammar& grammar, int32_t token, bool is_negated);

}  // namespace ocellus
