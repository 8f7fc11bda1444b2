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

/// Returns the text without an incomplete character at its end.
std::string_view without_cut_character(std::string_view text);

}  // namespace ocellus
