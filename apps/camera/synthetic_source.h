// Frames of a made-up scene, and faults on request, for machines without a camera and for tests.
//
// Faults are a list with commas. Each strikes before the frame of a number, counted from 1, or, with "%" for "@",
// before every so many frames:
//   stall@100:3s         no frame comes for 3 s (that much without the argument)
//   broken@150:2         instead of 2 frames (1) comes word that they cannot be used
//   truncated@160        the frame ends in its middle, and is found out
//   damaged@170          the frame's data is damaged where only decoding finds out; it comes as a frame
//   resize@200:320x240   from here on frames have this size; if "every", first this one and then the first one again
//   unplug@250:2s        the camera goes, and comes back after 2 s (2 s)
//   errors@300:10        the driver fails 10 times (10): each time the camera is lost and can be opened again at once
//   skip@350:5           the driver drops 5 frames (1)
//   end@400              there are no more frames
//   loop, loop@500       the list starts again 50 frames after its last fault, or every 500 frames
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/camera/faults.h"
#include "apps/camera/frame_source.h"
#include "apps/camera/pacer.h"
#include "apps/camera/scene.h"

namespace ocellus::app {

// Takes `format` ("rgb24", which is the usual one, "nv12", "yuyv422", "mjpeg"), a size of even numbers from 16 to 8192
// (640 x 480), `frames_per_second` up to 100,000 (30), `seed` and `faults`. Frame::truth is what the scene shows.
class SyntheticSource : public FrameSource {
 public:
  // Throws a Failure for options that it does not take.
  explicit SyntheticSource(const SourceOptions& options);

  SourceEvent next(Frame* frame, std::chrono::milliseconds wait) override;
  std::string describe() const override;
  bool can_reopen() const override { return true; }
  void reopen() override;
  double frames_per_second() const override { return rate_; }
  // Of the frame of the last call to next().
  const Scene& scene() const { return scene_; }

 private:
  enum class Format { kRgb, kNv12, kYuyv, kMjpeg };

  bool stalls(int64_t number);
  SourceEvent strike(bool* truncated, bool* damaged);
  void paint(Frame* frame);
  void encode(Frame* frame);
  void damage(Frame* frame);

  std::string format_name_;
  Format format_ = Format::kRgb;
  int32_t asked_width_, asked_height_, width_, height_;
  double rate_;
  Pacer pacer_;
  Scene scene_;
  FaultPlan plan_;
  int64_t number_ = 0;          // of the last frame, whether it came or not
  int64_t pass_ = 0;            // over the faults, of those that loop
  int64_t stalled_number_ = 0;  // the frame whose stalls are over
  int64_t broken_left_ = 0, errors_left_ = 0, skipped_ = 0;
  int64_t back_ns_ = 0;  // when an unplugged camera comes back
  bool lost_ = false, ended_ = false;
  Frame canvas_;  // RGB
};

}  // namespace ocellus::app
