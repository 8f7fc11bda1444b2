// UTF-8, byte by byte, for text that may be anything.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace ocellus {

inline constexpr int32_t kInvalidCodePoint = -1;

/// How many bytes at the start of `text` (not empty) are a valid beginning of one character, and in *whole_bytes how
/// many the character has. Fewer than *whole_bytes means it is cut short, by the end of the text or by a wrong byte;
/// 0 means the first byte cannot start a character. Unicode 15, table 3-7.
int measure_utf8(std::string_view text, int* whole_bytes);

/// The code point at the start of `text` (not empty) and its bytes; kInvalidCodePoint and 1 where it is not UTF-8.
int32_t decode_utf8(std::string_view text, int* bytes);

/// The part of `text` from `begin` on, at most `count` bytes. Empty behind the end, where substr would throw.
inline std::string_view slice(std::string_view text, size_t begin, size_t count = std::string_view::npos) {
  text.remove_prefix(std::min(begin, text.size()));
  return {text.data(), std::min(count, text.size())};
}

}  // namespace ocellus
