#include "quant/gguf_names.h"

namespace ocellus {
namespace {

bool is_continuation(char c) { return (static_cast<uint8_t>(c) & 0xc0) == 0x80; }

// Returns the bytes of the well-formed, printable character at the start of `text`, 0 if there is none. Unicode 15,
// table 3-7.
size_t character_bytes(std::string_view text) {
  const uint8_t lead = static_cast<uint8_t>(text[0]);
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7f ? 1 : 0;
  const size_t length = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if (!is_continuation(text[i])) return 0;
  }
  const uint8_t second = static_cast<uint8_t>(text[1]);
  const bool control = lead == 0xc2 && second < 0xa0;  // U+0080 to U+009F
  const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool surrogate = lead == 0xed && second >= 0xa0;
  const bool too_large = lead == 0xf4 && second >= 0x90;  // beyond U+10FFFF
  return control || overlong || surrogate || too_large ? 0 : length;
}

}  // namespace

bool is_printable_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = character_bytes(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

int shown_bytes(std::string_view name) {
  constexpr size_t kMaxShown = 64;
  if (name.size() <= kMaxShown) return static_cast<int>(name.size());
  size_t shown = kMaxShown;
  while (shown > 0 && is_continuation(name[shown])) --shown;
  return static_cast<int>(shown);
}

}  // namespace ocellus
