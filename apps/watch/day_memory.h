// DayMemory: the frames of a watch that are kept in an image library.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/camera/change_gate.h"
#include "apps/day/day_frames.h"
#include "apps/watch/record.h"
#include "apps/watch/watch_events.h"

namespace ocellus::app {

struct DayOptions {
  std::string folder, owner;  // folder empty: no such memory
  DayQuota quota;
  double change = 0.05;  // frames are kept that differ from the last kept one by this, as in ChangeGate, or in words
};

// Used by the loop only, but for frames() and state().
class DayMemory {
 public:
  // Throws DayFrames' Failures. `events` must outlive this object.
  DayMemory(const DayOptions& options, WatchEvents* events);

  // Keeps the frame of a record if it differs; `session`, one for questions, reads it for that. Notes on `events` when
  // that begins to fail, and when it succeeds again.
  void keep(Session* session, const Frame& frame, const Record& record, const std::vector<uint8_t>& preview);
  DayFrames& frames() { return frames_; }
  nlohmann::ordered_json state() const;

 private:
  bool differs(const Frame& frame, const std::string& caption);
  void follow_clock(int64_t at_ms);
  bool store(Session* session, const Frame& frame, DayFrame* out);

  DayFrames frames_;
  const double change_;
  ChangeGate gate_{0};
  std::string caption_;  // the last kept one
  WatchEvents* events_;
  bool is_in_trouble_ = false;
  int64_t newest_ms_ = 0;
};

// A frame as the page and --json have it.
nlohmann::ordered_json day_frame_json(const DayFrame& frame);

}  // namespace ocellus::app
