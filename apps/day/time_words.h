// Times in words: "between 9 and 10", "since lunch", "2 hours ago". In the local time zone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ocellus::app {

// Milliseconds since 1970; the end is not part of it.
struct TimeSpan {
  int64_t begin_ms = 0;
  int64_t end_ms = 0;
};

struct TimedText {
  std::optional<TimeSpan> span;
  bool is_moment = false;  // the words name one moment, where the span begins
  std::string text;        // without the words of time
};

// Takes the words of time out of a question. Times without a day are of today, or of yesterday if they are still to
// come. "between 11 and 1" ends in the afternoon.
TimedText take_time_words(const std::string& question, int64_t now_ms);

// Parses "2h", "90m", "09:30", "2026-11-27" or "2026-11-27 09:30"; nullopt for anything else.
std::optional<int64_t> parse_since(const std::string& text, int64_t now_ms);

// "14:02:11" on the day of `now_ms`, else "2026-11-20 14:02:11".
std::string clock_text(int64_t at_ms, int64_t now_ms);

}  // namespace ocellus::app
