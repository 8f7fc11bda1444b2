#include "apps/base/trimmed_text.h"

namespace ocellus::app {

std::string TrimmedText::add(std::string_view piece) {
  constexpr std::string_view kWhiteSpace = " \t\r\n";
  held_back_ += piece;
  const size_t end = trims_ ? held_back_.find_last_not_of(kWhiteSpace) : held_back_.size() - 1;
  if (end == std::string::npos) return "";
  const size_t begin = trims_ && text_.empty() ? held_back_.find_first_not_of(kWhiteSpace) : 0;
  const std::string shown = held_back_.substr(begin, end + 1 - begin);
  held_back_.erase(0, end + 1);
  text_ += shown;
  return shown;
}

}  // namespace ocellus::app
