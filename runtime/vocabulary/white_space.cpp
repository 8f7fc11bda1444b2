#include "runtime/vocabulary/white_space.h"

#include "platform/utf8.h"

namespace ocellus {
namespace {

bool is_space(int32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
         c == 0x202f || c == 0x205f || c == 0x3000;
}

/// Returns the bytes of the space at the beginning of the text; 0 if there is none.
size_t space_at(std::string_view text) {
  int bytes = 0;
  return !text.empty() && is_space(decode_utf8(text, &bytes)) ? static_cast<size_t>(bytes) : 0;
}

}  // namespace

std::string_view trim_white_space(std::string_view text) {
  for (size_t bytes = space_at(text); bytes > 0; bytes = space_at(text)) text.remove_prefix(bytes);
  for (size_t begin = text.size(); begin > 0; begin = text.size()) {
    do --begin;
    while (begin > 0 && (static_cast<uint8_t>(text[begin]) & 0xc0) == 0x80);
    const std::string_view last(text.data() + begin, text.size() - begin);
    if (space_at(last) != last.size()) break;
    text.remove_suffix(last.size());
  }
  return text;
}

}  // namespace ocellus
