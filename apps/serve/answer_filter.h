// What of the model's text the client sees: without white space at both ends, and nothing from a stop string on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ocellus::app {

class AnswerFilter {
 public:
  explicit AnswerFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // The text that can be shown now: what may be the beginning of a stop string, or the end's white space, waits.
  std::string push(std::string_view piece);
  // A stop string has come.
  bool is_stopped() const { return is_stopped_; }
  // The rest, once nothing more comes.
  std::string finish();

 private:
  std::string trim(std::string text);
  size_t find_stop() const;
  size_t stop_beginning() const;

  std::vector<std::string> stops_;
  std::string unmatched_;  // may be the beginning of a stop string
  std::string spaces_;     // may turn out to be the end
  bool is_stopped_ = false;
  bool has_shown_ = false;
};

}  // namespace ocellus::app
