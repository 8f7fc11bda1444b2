// Frames and clips as parts of a prompt, for Session::add_parts.
#pragma once

#include <vector>

#include "apps/camera/clip_frames.h"
#include "runtime/ocellus.hpp"

namespace ocellus::app {

// The frame as a part; *view holds what the part points to. Both are valid as long as the frame is.
ocellus_part frame_part(const Frame& frame, ocellus_frame* view);

// A clip as a part, valid as long as its frames are.
class ClipPart {
 public:
  explicit ClipPart(const ClipFrames& clip);
  ClipPart(const ClipPart&) = delete;
  ClipPart& operator=(const ClipPart&) = delete;
  ocellus_part get() const { return make_part(clip_); }

 private:
  std::vector<ocellus_frame> views_;
  std::vector<ocellus_part> frames_;
  std::vector<double> seconds_;
  ocellus_clip clip_ = {};
};

}  // namespace ocellus::app
