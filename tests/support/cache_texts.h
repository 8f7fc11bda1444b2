// The texts in which cache policies name their methods.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <string_view>

#include "runtime/ocellus.h"

namespace ocellus::test {

inline void set_text(char (&field)[OCELLUS_METHOD_TEXT], std::string_view text) {
  REQUIRE(text.size() < sizeof field);
  std::memset(field, 0, sizeof field);
  std::memcpy(field, text.data(), text.size());
}

/// Adds "key=value" to the method that the field names.
inline void add_option(char (&field)[OCELLUS_METHOD_TEXT], const std::string& option) {
  const std::string text = field;
  set_text(field, text + (text.find(':') == std::string::npos ? ":" : ",") + option);
}

}  // namespace ocellus::test
