// Frames and clips as parts of a prompt, for ocellus_session_add_parts.
#pragma once

#include <vector>

#include "apps/camera/clip_frames.h"
#include "runtime/ocellus.h"

namespace ocellus::app {

// The frame as a part; *view holds what the part points to. Both are valid as long as the frame is.
ocellus_part frame_part(const Frame& frame, ocellus_frame* view);

// A clip as a part, valid as long as its frames are.
class ClipPart {
 public:
  explicit ClipPart(const ClipFrames& clip);
  ClipPart(const ClipPart&) = delete;
  ClipPart& operator=(const ClipPart&) = delete;
  ocellus_part get() const;

 private:
  std::vector<ocellus_frame> views_;
  std::vector<ocellus_part> frames_;
  std::vector<double> seconds_;
  ocellus_clip clip_ = {};
};

}  // namespace ocellus::app
