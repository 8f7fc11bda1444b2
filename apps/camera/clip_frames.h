// ClipFrames: frames that are read as a clip, owned elsewhere, with their times.
#pragma once

#include <vector>

#include "apps/camera/frame.h"

namespace ocellus::app {

struct ClipFrames {
  std::vector<const Frame*> frames;
  std::vector<double> seconds;  // each frame's time since the first one, never decreasing
  double duration = 0;          // includes that of the last frame; 0: unknown

  bool empty() const { return frames.empty(); }
};

// True if a clip may hold both: frames of one size, less than a day apart.
bool fit_one_clip(const Frame& earlier, const Frame& later);

// Makes a clip of these frames, in the order of their times. A frame lasts as long as the median of the times from one
// to the next, to a tenth of a second, so that late frames do not change the pace that a model is told.
ClipFrames make_clip(std::vector<const Frame*> frames);

}  // namespace ocellus::app
