// A model's answer without the white space at both ends, as it comes.
#pragma once

#include <string>
#include <string_view>

namespace ocellus::app {

class TrimmedText {
 public:
  // The text that can be shown now: white space waits until something follows it.
  std::string add(std::string_view piece);
  const std::string& text() const { return text_; }  // all that was shown

 private:
  std::string text_;
  std::string held_back_;  // may turn out to be the end
};

}  // namespace ocellus::app
