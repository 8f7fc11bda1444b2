#include "platform/utf8.h"

#include <cstddef>

namespace ocellus {
namespace {

int whole_bytes_after(uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  return lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

// The second byte rules out overlong forms, surrogates and code points past U+10FFFF.
bool may_be_second(uint8_t lead, uint8_t second) {
  const uint8_t least = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const uint8_t most = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  return second >= least && second <= most;
}

}  // namespace

int measure_utf8(std::string_view text, int* whole_bytes) {
  const auto byte = [&](int i) { return static_cast<uint8_t>(text[static_cast<size_t>(i)]); };
  *whole_bytes = whole_bytes_after(byte(0));
  if (*whole_bytes == 0) return 0;
  const int available = text.size() < 4 ? static_cast<int>(text.size()) : 4;
  int valid = 1;
  while (valid < *whole_bytes && valid < available) {
    const bool good = valid == 1 ? may_be_second(byte(0), byte(1)) : (byte(valid) & 0xc0) == 0x80;
    if (!good) break;
    ++valid;
  }
  return valid;
}

int32_t decode_utf8(std::string_view text, int* bytes) {
  *bytes = 1;
  if (static_cast<uint8_t>(text[0]) < 0x80) return text[0];
  int whole = 0;
  const int valid = measure_utf8(text, &whole);
  if (whole == 0 || valid < whole) return kInvalidCodePoint;
  *bytes = whole;
  const auto lead = static_cast<uint8_t>(text[0]);
  int32_t code_point = lead & (0x7f >> whole);
  for (int i = 1; i < whole; ++i)
    code_point = code_point << 6 | (static_cast<uint8_t>(text[static_cast<size_t>(i)]) & 0x3f);
  return code_point;
}

std::string_view without_cut_character(std::string_view text) {
  for (size_t tail = 1; tail <= 3 && tail <= text.size(); ++tail) {
    int whole = 0;
    const int valid = measure_utf8({text.data() + text.size() - tail, tail}, &whole);
    if (valid == 0) continue;
    const bool is_cut = valid < whole && static_cast<size_t>(valid) == tail;
    return {text.data(), text.size() - (is_cut ? tail : 0)};
  }
  return text;
}

}  // namespace ocellus
