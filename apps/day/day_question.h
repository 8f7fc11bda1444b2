// Questions about a day's frames, by what they ask for and the time they are about.
#pragma once

#include <optional>
#include <string>

#include "apps/day/time_words.h"

namespace ocellus::app {

struct DayQuestion {
  enum Kind {
    kAppear,     // "When did the red circle appear?"
    kDisappear,  // "When did the truck leave?"
    kChange,     // "What changed?"
    kCount,      // "How many people came?": times of coming
    kPresence,   // "Was there a red circle?"
    kShow,       // "Show me the red circle."
    kFree,       // any other: for the model
  };
  Kind kind = kFree;
  std::string thing = {};  // "red circle"; empty for kChange and kFree
  bool first = false;      // the first moment alone is asked for
  std::optional<TimeSpan> span = {};
  bool is_moment = false;
  std::string text = {};  // the question without its words of time
};

DayQuestion parse_day_question(const std::string& question, int64_t now_ms);

}  // namespace ocellus::app
