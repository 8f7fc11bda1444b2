#include "apps/serve/answer_filter.h"

#include <algorithm>
#include <utility>

namespace ocellus::app {
namespace {

constexpr std::string_view kWhiteSpace = " \t\r\n";

}  // namespace

std::string AnswerFilter::push(std::string_view piece) {
  if (is_stopped_) return "";
  unmatched_ += piece;
  std::string_view found;
  const size_t stop = find_stop(&found);
  is_stopped_ = stop != std::string::npos;
  const size_t shown = is_stopped_ ? stop : stop_beginning();
  std::string text = trim(unmatched_.substr(0, shown));
  unmatched_.erase(0, is_stopped_ ? std::string::npos : shown);
  if (is_stopped_ && shows_stop_) text += std::exchange(spaces_, "") + std::string(found);
  return text;
}

std::string AnswerFilter::finish() { return trim(std::exchange(unmatched_, "")); }

// Returns the first position of a stop string, which becomes *stop.
size_t AnswerFilter::find_stop(std::string_view* stop) const {
  size_t first = std::string::npos;
  for (const std::string& one : stops_) {
    const size_t at = unmatched_.find(one);
    if (at >= first) continue;
    first = at;
    *stop = one;
  }
  return first;
}

// Returns the first position from which the text is a prefix of a stop string.
size_t AnswerFilter::stop_beginning() const {
  size_t first = unmatched_.size();
  for (const std::string& stop : stops_) {
    size_t length = std::min(stop.size() - 1, unmatched_.size());
    while (length > 0 && unmatched_.compare(unmatched_.size() - length, length, stop, 0, length) != 0) --length;
    first = std::min(first, unmatched_.size() - length);
  }
  return first;
}

std::string AnswerFilter::trim(std::string text) {
  if (trims_ == Trims::kNothing) return text;
  spaces_ += text;
  const size_t end = spaces_.find_last_not_of(kWhiteSpace);
  if (end == std::string::npos) return "";
  const size_t begin = has_shown_ || trims_ == Trims::kEnd ? 0 : spaces_.find_first_not_of(kWhiteSpace);
  has_shown_ = true;
  std::string shown = spaces_.substr(begin, end + 1 - begin);
  spaces_.erase(0, end + 1);
  return shown;
}

}  // namespace ocellus::app
