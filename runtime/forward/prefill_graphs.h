// PrefillGraphs: prefill on a GPU, recorded for a few numbers of rows and of runs in the past. A prompt is padded to
// the next larger shape: padding rows are zeros, are not stored, and are hidden by causality; padding runs have no live
// slots. If more rows may wait than a GPU takes at once, every such part of a layer is recorded by itself, and a long
// prompt is padded to whole parts.
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
  static constexpr int64_t kFewPastTiles = 64;
  static constexpr int32_t kLongPastShapes = 2;  // none, and the maximum

  int64_t rows_of(int32_t shape) const;
  int64_t past_of(int32_t shape) const;
  /// Number of parts of a layer of a long prompt; 1 if there are no long ones.
  int64_t part_count_of_layer() const { return hidden_.rows / scratch_.limits.rows_at_once; }
  int32_t long_part(int32_t layer, int64_t part) const;
  Status record_shape(const TextModel& model, int32_t row_shape, Queue& queue);
  Status record_long(const TextModel& model, Queue& queue);
  void upload_tokens(int64_t rows, int64_t padded, Queue& queue) const;
  void upload_lists(int64_t rows, int64_t padded, int64_t past_tiles, int64_t past, Queue& queue) const;
  void run_layer(int32_t rows_shape, int32_t past_shape, const LayerPass& pass, int64_t rows, Queue& queue) const;

  RecordedParts parts_;       // [row shapes * past shapes, parts of all layers]
  RecordedParts long_parts_;  // [long past shapes, layers * (parts of a layer, and its end)]
  DeviceView<float> hidden_;
  PrefillScratch scratch_;
  int32_t row_shapes_ = 0;
  int32_t past_shapes_ = 0;
  int32_t layers_per_part_ = kLayersPerPart;  // one if steps between layers are not recorded
};

}  // namespace ocellus
