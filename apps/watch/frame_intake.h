// FrameIntake: the next frame to answer, not before its time and only if it shows something new.
#pragma once

#include <cstdint>

#include "apps/camera/capture.h"
#include "apps/camera/change_gate.h"
#include "apps/camera/recent_frames.h"
#include "apps/watch/watch_control.h"
#include "apps/watch/watch_counts.h"

namespace ocellus::app {

// Maximum wait for settings and questions while there is nothing else to do.
inline constexpr std::chrono::milliseconds kIdleWait{100};

// Objects that an intake takes frames and requests from, and counts in; they outlive it.
struct IntakeSources {
  Capture* capture;
  WatchControl* control;
  WatchCounts* counts;
  RecentFrames* recent = nullptr;  // null: no clips
  int32_t clip_group = 1;          // frames of a clip that are one picture
};

// Not thread-safe.
class FrameIntake {
 public:
  explicit FrameIntake(const IntakeSources& sources) : sources_(sources) {}

  // Waits at most 100 ms, less if something is set or asked while no frame is due. False: no frame to answer now.
  bool take(const WatchSettings& settings);
  // The frame taken last, and its change against the one taken before, 0 to 1.
  const Frame& frame() const { return frame_; }
  double change() const { return change_; }
  // The frames of the clip that ends with this frame: whole groups, or it alone. Empty without clips.
  std::vector<const Frame*> clip() const;
  // Tells that a frame of the clip cannot be read, so that no later clip has it.
  void drop_clip();
  // Bytes of frames kept for clips, outside the plan.
  int64_t frame_bytes() const;

 private:
  void gather_clip();
  void leave_damaged_out();

  IntakeSources sources_;
  ChangeGate gate_{0};
  Frame frame_;
  std::vector<Frame> earlier_;  // the clip without frame_, then spare memory
  size_t earlier_count_ = 0;
  int64_t looked_at_ = 0;  // number of the last frame known to be undamaged, or left out
  double change_ = 1;
  int64_t due_ns_ = 0;
};

}  // namespace ocellus::app
