// RecentFrames: the last frames of a source at a steady rate, for clips that end with its newest frame.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "apps/camera/frame.h"

namespace ocellus::app {

struct ClipPace {
  int32_t frames = 0;  // maximum in a clip; 0: no clips, frames are pictures
  int32_t group = 1;   // consecutive frames that the model reads as one picture
  double frames_per_second = 0;
};

// Thread-safe. Memory is taken with the first frames and used again by later ones.
class RecentFrames {
 public:
  explicit RecentFrames(const ClipPace& pace);

  // Copies the frame if it is due: about a period after the last one that was kept. Slower sources lose none.
  void add(const Frame& frame);
  // Copies the frames for a clip that ends with `newest` to the start of *out, oldest first, and returns their number:
  // at most one less than a clip has, all of the size of `newest`, none so late that it shows nearly the same.
  size_t copy_before(const Frame& newest, std::vector<Frame>* out) const;
  // Drops the frames up to this number: one of them cannot be read.
  void forget_until(int64_t sequence);
  // Bytes of the frames kept.
  int64_t bytes() const;

 private:
  const size_t most_;  // earlier frames of a clip
  const int64_t period_ns_;
  mutable std::mutex mutex_;  // guards the members below
  std::vector<Frame> kept_;   // oldest first; those from held_ on are spare memory
  size_t held_ = 0;
};

}  // namespace ocellus::app
