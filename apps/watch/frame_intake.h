// FrameIntake: the next frame to answer, not before its time and only if it shows something new.
#pragma once

#include <cstdint>

#include "apps/camera/capture.h"
#include "apps/camera/change_gate.h"
#include "apps/watch/watch_control.h"
#include "apps/watch/watch_counts.h"

namespace ocellus::app {

// Maximum wait for settings and questions while there is nothing else to do.
inline constexpr std::chrono::milliseconds kIdleWait{100};

// Not thread-safe. What it is given must outlive it.
class FrameIntake {
 public:
  FrameIntake(Capture* capture, WatchControl* control, WatchCounts* counts)
      : capture_(capture), control_(control), counts_(counts) {}

  // Waits at most 100 ms, less if something is set or asked while no frame is due. False: no frame to answer now.
  bool take(const WatchSettings& settings);
  // The frame taken last, and its change against the one taken before, 0 to 1.
  const Frame& frame() const { return frame_; }
  double change() const { return change_; }

 private:
  Capture* capture_;
  WatchControl* control_;
  WatchCounts* counts_;
  ChangeGate gate_{0};
  Frame frame_;
  double change_ = 1;
  int64_t due_ns_ = 0;
};

}  // namespace ocellus::app
