#include "quant/gguf_names.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

using namespace ocellus;

TEST_CASE("exactly the well-formed encodings of printable characters pass") {
  for (uint32_t code = 0; code < 0x110000; ++code) {
    std::string text;
    const auto tail = [&](int shift) { text += static_cast<char>(0x80 | ((code >> shift) & 0x3f)); };
    if (code < 0x80) {
      text += static_cast<char>(code);
    } else if (code < 0x800) {
      text += static_cast<char>(0xc0 | (code >> 6));
      tail(0);
    } else if (code < 0x10000) {
      text += static_cast<char>(0xe0 | (code >> 12));
      tail(6), tail(0);
    } else {
      text += static_cast<char>(0xf0 | (code >> 18));
      tail(12), tail(6), tail(0);
    }
    const bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
    const bool surrogate = code >= 0xd800 && code < 0xe000;
    if (is_printable_utf8(text) == (control || surrogate)) FAIL("U+", code);
  }
  CHECK(is_printable_utf8(""));
}

TEST_CASE("a character that the end of the text cuts off does not pass") {
  for (const char* text : {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"}) {
    for (size_t size = 1; size < std::strlen(text); ++size) {
      const std::vector<char> exact(text, text + size);  // exact size, so that AddressSanitizer sees any read beyond it
      CHECK(!is_printable_utf8({exact.data(), exact.size()}));
    }
  }
}

TEST_CASE("of a long name whole characters are shown") {
  CHECK(shown_bytes("") == 0);
  CHECK(shown_bytes(std::string(64, 'a')) == 64);
  CHECK(shown_bytes(std::string(65, 'a')) == 64);
  CHECK(shown_bytes(std::string(63, 'a') + "\xc3\xa9 and more") == 63);
  CHECK(shown_bytes(std::string(62, 'a') + "\xc3\xa9 and more") == 64);
}
