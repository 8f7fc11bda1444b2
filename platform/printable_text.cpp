#include "platform/printable_text.h"

#include <cstdio>
#include <cstring>

#include "platform/utf8.h"

namespace ocellus {
namespace {

constexpr size_t kFormattedBytes = 512;

// True for characters that move the cursor, start a terminal's control sequence, or change the order of text.
bool is_unprintable(int32_t code_point, Lines lines) {
  if (code_point == '\n' || code_point == '\t') return lines == Lines::kOne;
  return code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0) ||  // C0, DEL and C1
         (code_point >= 0x2028 && code_point <= 0x202e) ||                  // separators, embeddings, overrides
         (code_point >= 0x2066 && code_point <= 0x2069);                    // isolates
}

}  // namespace

size_t write_printable(std::string_view text, Lines lines, char* out, size_t capacity) {
  size_t used = 0;
  while (!text.empty()) {
    int bytes = 1;
    const int32_t code_point = decode_utf8(text, &bytes);
    char escaped[12];
    std::string_view shown(text.data(), static_cast<size_t>(bytes));
    if (code_point == kInvalidCodePoint) {
      shown = kReplacement;
    } else if (is_unprintable(code_point, lines)) {
      const char* const form = code_point < 0x80 ? "\\x%02x" : "\\u%04x";
      const int written = std::snprintf(escaped, sizeof escaped, form, static_cast<unsigned>(code_point));
      shown = {escaped, static_cast<size_t>(written)};
    }
    if (used + shown.size() >= capacity) break;
    std::memcpy(out + used, shown.data(), shown.size());
    used += shown.size();
    text.remove_prefix(static_cast<size_t>(bytes));
  }
  out[used] = '\0';
  return used;
}

void format_printable(char* out, size_t capacity, const char* format, va_list arguments) {
  char formatted[kFormattedBytes];
  const int wanted = std::vsnprintf(formatted, sizeof formatted, format, arguments);
  if (wanted < 0) formatted[0] = '\0';
  std::string_view text(formatted);
  if (wanted >= static_cast<int>(sizeof formatted)) text = without_cut_character(text);
  write_printable(text, Lines::kOne, out, capacity);
}

}  // namespace ocellus
