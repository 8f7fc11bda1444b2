// PrefillGraphs: prefill on a GPU, recorded for a few numbers of rows and of runs in the past. A prompt is padded to
// the next larger shape: padding rows are zeros, are not stored, and are hidden by causality; padding runs have no live
// slots. A prompt of more rows than a GPU takes at once, which only eviction has, or of many rows and of few runs
// beside the recorded ones, is padded in the same way and enqueued as it is: its kernels take longer than their
// launches.
#pragma once

#include "platform/recorded_parts.h"
#include "runtime/forward/prefill.h"

namespace ocellus {

class PrefillGraphs {
 public:
  /// Runs and records every shape. Recordings hold the addresses of `hidden` (the whole chunk) and `scratch`, so later
  /// prompts must use the same memory. `scratch` must have slots and positions for every row.
  Status record(const TextModel& model, DeviceView<float> hidden, const PrefillScratch& scratch, Queue& queue);

  /// Like prefill_rows, for the first `rows` rows of the chunk. Pads and uploads the scratch's lists, which
  /// plan_prefill has filled but not uploaded.
  Status run(const TextModel& model, int64_t rows, const PrefillPlan& plan, const StopSignal* stop, Queue& queue) const;

 private:
  static constexpr int64_t kLeastRows = 16;
  static constexpr int64_t kLongRows = 512;  // reading runs without slots takes longer than launches from here on
  static constexpr int64_t kFewPastTiles = 64;
  static constexpr int32_t kPastShapes = 3;  // none, a few, the maximum

  int64_t rows_of(int32_t shape) const;
  int32_t shape_of(int64_t rows) const;
  void pad_rows(int64_t rows, int64_t padded, Queue& queue) const;
  Status run_long(const TextModel& model, int64_t rows, const PrefillPlan& plan, const StopSignal* stop,
                  Queue& queue) const;
  int64_t past_of(int32_t shape) const;

  RecordedParts parts_;
  DeviceView<float> hidden_;
  PrefillScratch scratch_;
  int32_t row_shapes_ = 0;
  int32_t layers_per_part_ = kLayersPerPart;  // one if steps between layers are not recorded
};

}  // namespace ocellus
