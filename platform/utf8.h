// Byte-level UTF-8 for arbitrary text.
#pragma once

#include <cstdint>
#include <string_view>

namespace ocellus {

inline constexpr int32_t kInvalidCodePoint = -1;

/// U+FFFD, which replaces invalid bytes.
inline constexpr std::string_view kReplacement = "\xef\xbf\xbd";

/// Returns how many bytes at the start of `text` (not empty) are a valid beginning of one character, and in
/// *whole_bytes the length of that character. Fewer than *whole_bytes: it is cut short by the end of the text or by a
/// wrong byte; 0: the first byte cannot start a character. Unicode 15, table 3-7.
int measure_utf8(std::string_view text, int* whole_bytes);

/// Returns the code point at the start of `text` (not empty) and its bytes; kInvalidCodePoint and 1 if it is not UTF-8.
int32_t decode_utf8(std::string_view text, int* bytes);

/// Writes 1 to 4 bytes of a code point up to U+10FFFF, and returns how many. Surrogates are written as they are.
inline int encode_utf8(uint32_t code_point, uint8_t* out) {
  if (code_point < 0x80) return out[0] = static_cast<uint8_t>(code_point), 1;
  const int count = code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
  for (int i = count - 1; i > 0; --i, code_point >>= 6) out[i] = static_cast<uint8_t>(0x80 | (code_point & 0x3F));
  out[0] = static_cast<uint8_t>((0xF00 >> count & 0xFF) | code_point);
  return count;
}

/// Returns the text without an incomplete character at its end.
std::string_view without_cut_character(std::string_view text);

}  // namespace ocellus
