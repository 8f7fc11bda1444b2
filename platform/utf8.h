// UTF-8, byte by byte, for text that may be anything.
#pragma once

#include <cstdint>
#include <string_view>

namespace ocellus {

inline constexpr int32_t kInvalidCodePoint = -1;

/// U+FFFD, which stands where bytes are no character.
inline constexpr std::string_view kReplacement = "\xef\xbf\xbd";

/// How many bytes at the start of `text` (not empty) are a valid beginning of one character, and in *whole_bytes how
/// many the character has. Fewer than *whole_bytes means it is cut short, by the end of the text or by a wrong byte;
/// 0 means the first byte cannot start a character. Unicode 15, table 3-7.
int measure_utf8(std::string_view text, int* whole_bytes);

/// The code point at the start of `text` (not empty) and its bytes; kInvalidCodePoint and 1 where it is not UTF-8.
int32_t decode_utf8(std::string_view text, int* bytes);

/// The text without a character at its end that was cut there.
std::string_view without_cut_character(std::string_view text);

}  // namespace ocellus
