#include "apps/watch/clip_pace.h"

#include <array>

#include "apps/base/failure.h"

namespace ocellus::app {
namespace {

// Rate at which the model's own rule samples a video, seen in a short one.
double model_rate(const Model& model) {
  constexpr int32_t kVideoFrames = 300;
  constexpr double kVideoSeconds = 10;
  std::array<int32_t, kVideoFrames> indices = {};
  return take(model.sample_clip(kVideoFrames, kVideoSeconds, indices)) / kVideoSeconds;
}

}  // namespace

ClipPace choose_clip_pace(const Model& model, const ClipWish& wish) {
  if (wish.frames == 0) return {};
  const std::string flag = "--clip-frames " + std::to_string(wish.frames);
  if (wish.with_rolling_memory) {
    throw Failure(
        kExitUsage,
        flag + " does not go with --memory rolling, which reads frames one by one as they come: leave one out.");
  }
  if (model.facts.has_vision && model.facts.clip_frames == 0) {
    throw Failure(kExitUsage, flag + ": the model takes no clips; without the flag each frame is a picture.");
  }
  if (!model.facts.has_vision) return {.frames = wish.frames};  // the plan reports it
  const int32_t group = model.facts.clip_group;
  if (wish.frames % group != 0) {
    throw Failure(kExitUsage, flag + ": the model reads frames in pairs; give an even number.");
  }
  const double rate = wish.frames_per_second > 0 ? wish.frames_per_second : model_rate(model);
  return {.frames = wish.frames, .group = group, .frames_per_second = rate};
}

}  // namespace ocellus::app
