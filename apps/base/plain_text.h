// Helpers for text from users and files.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

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

// True if `word` is one of the words of a list, which spaces separate.
constexpr bool lists_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const size_t end = std::min(list.find(' '), list.size());
    if (list.substr(0, end) == word) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

inline std::string join_words(const std::vector<std::string>& words, std::string_view separator) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : std::string(separator)) + word;
  return text;
}

// Returns the first position at which the text has `mark`, or ends with a beginning of it; else its size.
inline size_t find_beginning(std::string_view text, std::string_view mark) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (text.substr(at, mark.size()) == mark.substr(0, text.size() - at)) return at;
  }
  return text.size();
}

// Returns the end of the text's first characters that have at most `most` bytes.
inline size_t cut_at(std::string_view text, size_t most) {
  if (text.size() <= most) return text.size();
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
  return most;
}

// Cuts a value that a sentence quotes, which may have megabytes: "abc...".
inline std::string shorten(std::string_view text, size_t most_bytes = 80) {
  const size_t end = cut_at(text, most_bytes);
  return std::string(text.substr(0, end)) + (end < text.size() ? "..." : "");
}

// Cuts a sentence that is too long in its middle, where it quotes something: its end says what is wrong.
inline std::string shorten_sentence(std::string_view text, size_t most_bytes = 2000) {
  if (text.size() <= most_bytes) return std::string(text);
  const size_t last = text.size() - cut_at(text, text.size() - most_bytes / 2);
  return shorten(text, most_bytes / 2) + std::string(text.substr(text.size() - last));
}
}  // namespace ocellus::app
