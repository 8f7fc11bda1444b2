// Sentences about frames and sources.
#pragma once

#include <cctype>
#include <cstdint>
#include <string>

namespace ocellus::app {

// Turns "The picture is empty." into "board.png: the picture is empty."
inline std::string about(const std::string& subject, std::string sentence) {
  const bool word = sentence.size() > 1 && std::islower(static_cast<unsigned char>(sentence[1])) != 0;
  if (word) sentence[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(sentence[0])));
  return subject + ": " + sentence;
}

inline std::string size_text(int64_t width, int64_t height) {
  return std::to_string(width) + " x " + std::to_string(height);
}

// "30", "29.97"
std::string rate_text(double frames_per_second);

}  // namespace ocellus::app
