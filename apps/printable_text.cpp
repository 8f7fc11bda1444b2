#include "apps/printable_text.h"

#include <cstdint>
#include <cstdio>

namespace ocellus::app {
namespace {

struct Character {
  size_t bytes;
  int32_t code_point;  // -1: the byte is not UTF-8
};

// Of the character at the start of `text`, which is not empty.
Character read_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, lead};
  const size_t bytes = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {1, -1};
  int32_t code_point = lead & (0x7F >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {1, -1};
    code_point = code_point << 6 | (byte(i) & 0x3F);
  }
  constexpr int32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};  // less would have fewer bytes
  const bool is_surrogate = code_point >= 0xD800 && code_point < 0xE000;
  if (code_point < kLeast[bytes] || is_surrogate || code_point > 0x10FFFF) return {1, -1};
  return {bytes, code_point};
}

// What moves the cursor, starts a sequence that a terminal obeys, or lets text read otherwise than it is written.
bool is_unprintable(int32_t code_point, Lines lines) {
  if (code_point == '\n' || code_point == '\t') return lines == Lines::kOne;
  return code_point < 0x20 || (code_point >= 0x7F && code_point < 0xA0) ||  // C0, DEL and C1
         (code_point >= 0x2028 && code_point <= 0x202E) ||                  // separators, embeddings, overrides
         (code_point >= 0x2066 && code_point <= 0x2069);                    // isolates
}

}  // namespace

std::string make_printable(std::string_view text, Lines lines) {
  std::string shown;
  for (size_t at = 0; at < text.size();) {
    const Character character = read_character(text.substr(at));
    const int32_t code_point = character.code_point;
    if (code_point < 0) {
      shown += "\xEF\xBF\xBD";
    } else if (is_unprintable(code_point, lines)) {
      char escaped[12];
      std::snprintf(escaped, sizeof escaped, code_point < 0x80 ? "\\x%02x" : "\\u%04x",
                    static_cast<unsigned>(code_point));
      shown += escaped;
    } else {
      shown += text.substr(at, character.bytes);
    }
    at += character.bytes;
  }
  return shown;
}

}  // namespace ocellus::app
