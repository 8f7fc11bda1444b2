// What the commands do with words of people and files.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace ocellus::app {

// A to Z become a to z; everything else stays.
inline std::string to_lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

// The text without those of `characters` that stand at its ends.
inline std::string trim(std::string_view text, std::string_view characters = " \t\r\n") {
  const size_t begin = std::min(text.find_first_not_of(characters), text.size());
  return std::string(text.substr(begin, text.find_last_not_of(characters) + 1 - begin));
}

}  // namespace ocellus::app
