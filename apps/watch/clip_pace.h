// Which clips a watch shows to its model: number and rate of their frames.
#pragma once

#include "apps/camera/recent_frames.h"
#include "apps/setup/setup.h"

namespace ocellus::app {

inline constexpr int32_t kMaxClipFrames = 64;

// As given by flags.
struct ClipWish {
  int32_t frames = 0;            // 0: no clips
  double frames_per_second = 0;  // 0: the model's
  bool with_rolling_memory = false;
};

// Throws a Failure, with the flag's name, for a model or memory that takes no such clips.
ClipPace choose_clip_pace(const Model& model, const ClipWish& wish);

}  // namespace ocellus::app
