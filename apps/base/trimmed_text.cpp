#include "apps/base/trimmed_text.h"

namespace ocellus::app {

std::string TrimmedText::add(std::string_view piece) {
  constexpr std::string_view kWhiteSpace = " \t\r\n";
  if (!trims_) {
    text_ += piece;
    return std::string(piece);
  }
  held_back_ += piece;
  const size_t end = held_back_.find_last_not_of(kWhiteSpace);
  if (end == std::string::npos) return "";
  const size_t begin = text_.empty() ? held_back_.find_first_not_of(kWhiteSpace) : 0;
  const std::string shown = held_back_.substr(begin, end + 1 - begin);
  held_back_.erase(0, end + 1);
  text_ += shown;
  return shown;
}

}  // namespace ocellus::app
