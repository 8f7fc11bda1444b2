// VisionGraphs: the vision tower and projector on a GPU, recorded for 1 to 8, 16, 32, ... views and for a whole batch.
// Views are padded to the next larger shape: padding is encoded, too, and ignored. Towers with views of any size
// have AnySizeGraphs.
#pragma once

#include <algorithm>

#include "mm/tower/vision_tower.h"
#include "platform/recorded_parts.h"

namespace ocellus {

class VisionGraphs {
 public:
  /// Runs and records every shape. Recordings hold the addresses of `pixels` (of `capacity` views) and `scratch`.
  Status record(const VisionModel& model, DeviceView<const float> pixels, int64_t capacity,
                const VisionScratch& scratch, Queue& queue);

  /// Encodes and projects the first `views` views into scratch.projected.
  Status run(int64_t views, const StopSignal* stop, Queue& queue) const;

 private:
  static constexpr int32_t kEach = 8;  // each number of views up to this one has a recording
  int64_t views_of(int32_t shape) const {
    return std::min(shape < kEach ? shape + int64_t{1} : int64_t{kEach} << (shape - kEach + 1), capacity_);
  }

  RecordedParts parts_;
  int64_t capacity_ = 0;
  int32_t shapes_ = 0;
};

}  // namespace ocellus
