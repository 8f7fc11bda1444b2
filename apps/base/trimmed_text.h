// Removes white space at both ends of a model's answer while it streams.
#pragma once

#include <string>
#include <string_view>

namespace ocellus::app {

class TrimmedText {
 public:
  // `trims`: false leaves the text as it is: a grammar may want white space at the ends.
  explicit TrimmedText(bool trims = true) : trims_(trims) {}
  // Returns the text that can be shown now: white space is held back until other text follows.
  std::string add(std::string_view piece);
  const std::string& text() const { return text_; }  // everything shown so far

 private:
  bool trims_;
  std::string text_;
  std::string held_back_;  // white space that may be the end
};

}  // namespace ocellus::app
