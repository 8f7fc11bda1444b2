// Helpers for text from users and files.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace ocellus::app {

// Maps A to Z to a to z; leaves everything else unchanged.
inline std::string to_lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

// Removes `characters` from both ends of the text.
inline std::string trim(std::string_view text, std::string_view characters = " \t\r\n") {
  const size_t begin = std::min(text.find_first_not_of(characters), text.size());
  return std::string(text.substr(begin, text.find_last_not_of(characters) + 1 - begin));
}

}  // namespace ocellus::app
