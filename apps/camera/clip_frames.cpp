#include "apps/camera/clip_frames.h"

#include <algorithm>
#include <cmath>

namespace ocellus::app {
namespace {

constexpr double kDaySeconds = 24.0 * 3600.0;  // the library takes shorter clips

// `seconds` has at least two.
double usual_step(const std::vector<double>& seconds) {
  std::vector<double> steps;
  for (size_t i = 1; i < seconds.size(); ++i) steps.push_back(seconds[i] - seconds[i - 1]);
  const auto middle = steps.begin() + (std::ssize(steps) - 1) / 2;
  std::nth_element(steps.begin(), middle, steps.end());
  return std::round(10 * *middle) / 10;
}

}  // namespace

bool fit_one_clip(const Frame& earlier, const Frame& later) {
  const double apart = static_cast<double>(later.time_ns() - earlier.time_ns()) / 1e9;
  return earlier.width == later.width && earlier.height == later.height && apart >= 0 && apart < kDaySeconds;
}

ClipFrames make_clip(std::vector<const Frame*> frames) {
  ClipFrames clip;
  clip.frames = std::move(frames);
  for (const Frame* frame : clip.frames) {
    const auto since_ns = static_cast<double>(frame->time_ns() - clip.frames.front()->time_ns());
    clip.seconds.push_back(std::max(since_ns / 1e9, clip.seconds.empty() ? 0 : clip.seconds.back()));
  }
  if (clip.frames.size() < 2) return clip;
  const double duration = static_cast<double>(clip.frames.size()) * usual_step(clip.seconds);
  clip.duration = duration < kDaySeconds ? std::max(duration, clip.seconds.back()) : clip.seconds.back();
  return clip;
}

}  // namespace ocellus::app
