// AnswerFilter: the part of the model's text that the client sees: cut at a stop string, and usually without white
// space at both ends.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ocellus::app {

class AnswerFilter {
 public:
  enum class Trims : char { kNothing, kEnd, kEnds };

  // `trims`: where it removes white space. `shows_stop`: the text ends with the stop string.
  explicit AnswerFilter(std::vector<std::string> stops, Trims trims = Trims::kEnds, bool shows_stop = false)
      : stops_(std::move(stops)), trims_(trims), shows_stop_(shows_stop) {}

  // Returns the text that can be shown now; a possible beginning of a stop string and trailing white space are held
  // back.
  std::string push(std::string_view piece);
  // True once a stop string has come.
  bool is_stopped() const { return is_stopped_; }
  // Returns the rest at the end of the answer.
  std::string finish();

 private:
  std::string trim(std::string text);
  size_t find_stop(std::string_view* stop) const;
  size_t stop_beginning() const;

  std::vector<std::string> stops_;
  Trims trims_;
  bool shows_stop_;
  std::string unmatched_;  // possible beginning of a stop string
  std::string spaces_;     // possibly trailing
  bool is_stopped_ = false;
  bool has_shown_ = false;
};

}  // namespace ocellus::app
