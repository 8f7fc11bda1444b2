// The script of a day: what a synthetic camera sees in 24 hours, for measurements of a day's memory. Things stand
// still; they appear, disappear and move to other cells, a few times in an hour of the night and every few minutes of
// the day. Some come back several times. The board has one to four of them, never two of one color and shape.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/camera/scene.h"

namespace ocellus::app {

inline constexpr int64_t kDay_ms = 86'400'000;

enum class DayEventKind { kAppear, kDisappear, kMove, kBackground };

struct DayEvent {
  int64_t at_ms = 0;  // since midnight
  DayEventKind kind = DayEventKind::kAppear;
  SceneObject object = {};  // after the event, or where it was when it disappeared; kBackground: none
  Board after = {};
};

struct DayScript {
  Board first;                   // at midnight
  std::vector<DayEvent> events;  // ordered by time
  // Returns the board at this time since midnight.
  const Board& board_at(int64_t ms) const;
};

// Makes the day of a seed.
DayScript make_day(uint64_t seed);

struct Date {
  std::string text;         // "2026-11-27"
  int64_t midnight_ms = 0;  // its begin in local time, in ms since 1970
};

// Empty: today. Throws a Failure for text that is no date after 1970-01-01.
Date parse_date(const std::string& text);

// Writes the day as lines of JSON: the first one has "day", "midnight_ms", "seed" and "caption", those of the events
// have "at_ms" (since 1970), "time", "event", "thing", "size", "place" and "caption". Throws a Failure if the file
// cannot be written or is no regular file.
void write_truth(const std::string& path, const DayScript& script, const Date& date, uint64_t seed);

}  // namespace ocellus::app
