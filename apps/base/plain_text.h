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

// Returns the first position at which the text has `mark`, or ends with a beginning of it; else its size.
inline size_t find_beginning(std::string_view text, std::string_view mark) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (text.substr(at, mark.size()) == mark.substr(0, text.size() - at)) return at;
  }
  return text.size();
}

}  // namespace ocellus::app
