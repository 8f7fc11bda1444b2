// StepGraphs: the decode step, recorded once for every possible shape, so that a step costs the host one call. Rows are
// rounded up to a power of two or the most, attention's tiles to one of a few lengths. A step that samples apart is
// recorded up to its logits.
#pragma once

#include <algorithm>

#include "runtime/forward/decode_step.h"

namespace ocellus {

class StepGraphs {
 public:
  /// Runs and records the step for every shape up to `most`. All rows of `scratch` must be inactive. Graphs hold the
  /// addresses of `scratch`, so later steps must use the same memory.
  Status record(const TextModel& model, const StepShape& most, const StepScratch& scratch, Queue& queue);

  /// Launches the recorded step of the smallest shape that holds this one. kInternal if the scratch lies elsewhere.
  Status launch(const StepShape& shape, const StepScratch& scratch, Queue& queue);

 private:
  static constexpr int kRowShapes = 11;  // 1, 2, 4, ... and the most, up to 1024
  static constexpr int kTileShapes = 3;
  static constexpr int64_t kTiles[kTileShapes] = {64, 512, INT64_MAX};

  int64_t rows_of(int shape) const { return std::min(int64_t{1} << shape, most_rows_); }

  CudaGraph graphs_[kRowShapes][kTileShapes];
  StepScratch scratch_;
  int64_t most_rows_ = 0;
};

}  // namespace ocellus
