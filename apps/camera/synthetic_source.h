// Frames of a synthetic scene, and faults on request, for machines without a camera and for tests.
//
// Faults are a list with commas. Each occurs before the frame with the given number, counted from 1, or, with "%" for
// "@", before every multiple of the number:
//   stall@100:3s         no frame comes for 3 s (the default)
//   broken@150:2         2 frames (default 1) are reported as unusable
//   truncated@160        the frame is cut in its middle and detected as broken
//   damaged@170          the frame's data is damaged so that only decoding detects it; it is delivered
//   resize@200:320x240   frames have this size from here on; with "%" this size and the first one alternate
//   unplug@250:2s        the camera is lost, and comes back after 2 s (the default)
//   errors@300:10        the driver fails 10 times (the default): each time the camera is lost and can reopen at once
//   skip@350:5           the driver drops 5 frames (default 1)
//   end@400              there are no more frames
//   loop, loop@500       the list starts again 50 frames after its last fault, or every 500 frames
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/camera/day_script.h"
#include "apps/camera/faults.h"
#include "apps/camera/frame_source.h"
#include "apps/camera/pacer.h"
#include "apps/camera/scene.h"

namespace ocellus::app {

// Options: `format` ("rgb24", the default, "nv12", "yuyv422", "mjpeg"), a size of even numbers from 16 to 8192 (640 x
// 480), `frames_per_second` up to 100,000 (30), `seed` and `faults`. Frame::truth is the scene's caption.
// With `scene` "day" it shows the day of make_day(), from midnight on, and ends after it. `frames_per_second` (0.1)
// then counts the day's seconds, of which `speed` pass in a second.
class SyntheticSource : public FrameSource {
 public:
  // Throws a Failure for options that it does not have.
  explicit SyntheticSource(const SourceOptions& options);

  SourceEvent next(Frame* frame, std::chrono::milliseconds wait) override;
  std::string describe() const override;
  bool can_reopen() const override { return true; }
  void reopen() override;
  double frames_per_second() const override { return rate_ * speed_; }
  // The scene at the last call to next(); not for days.
  const Scene& scene() const { return scene_; }

 private:
  enum class Format { kRgb, kNv12, kYuyv, kMjpeg };

  void open_day(const SourceOptions& options);
  int64_t day_ms() const;
  const Board& show_board();
  bool stalls(int64_t number);
  SourceEvent strike(bool* truncated, bool* damaged);
  void paint(Frame* frame);
  void encode(Frame* frame);
  void damage(Frame* frame);

  std::string format_name_;
  Format format_ = Format::kRgb;
  int32_t asked_width_, asked_height_, width_, height_;
  double rate_, speed_;
  Pacer pacer_;
  Scene scene_;
  std::optional<DayScript> day_;
  Date date_;  // the day's
  FaultPlan plan_;
  int64_t number_ = 0;          // number of the last frame, delivered or not
  int64_t pass_ = 0;            // pass over the faults, with loop
  int64_t stalled_number_ = 0;  // frame whose stalls are over
  int64_t broken_left_ = 0, errors_left_ = 0, skipped_ = 0;
  int64_t back_ns_ = 0;  // time at which an unplugged camera comes back
  bool lost_ = false, ended_ = false;
  Frame canvas_;  // RGB
};

}  // namespace ocellus::app
