// AnySizeGraphs: the vision tower and its projectors on a GPU, for views of any size. What depends on the grid of a
// view's patches, and attention, are plain launches; all between is recorded for a few numbers of rows, to which a view
// is padded. Padding rows hold whatever is there: no recorded op lets one row see another, and attention, positions and
// joining take only the view's own rows.
#pragma once

#include <algorithm>
#include <bit>

#include "mm/tower/projector.h"
#include "mm/tower/tower_pass.h"
#include "platform/recorded_parts.h"

namespace ocellus {

class AnySizeGraphs {
 public:
  /// Runs and records every number of rows. Later calls use the same scratch, of which recordings hold the addresses.
  Status record(const VisionModel& model, const VisionScratch& scratch, Queue& queue);

  /// As encode_views and project_views, for a batch of one view. Results are copied from scratch.projected to `out`.
  Status encode(const VisionModel& model, DeviceView<const float> pixels, const ViewBatch& batch, DeviceView<float> out,
                const StopSignal* stop, Queue& queue) const;
  Status project(const VisionModel& model, const ViewBatch& batch, DeviceView<float> out, Queue& queue) const;

  /// The smallest recorded number of rows that holds `rows`: multiples of 128 or, from 1,024 on, four per octave; and
  /// `most`, the largest. Tiles of tensor cores have up to 128 rows, so that fewer would not be computed sooner.
  static constexpr int64_t padded_rows(int64_t rows, int64_t most) {
    constexpr int64_t kTileRows = 128, kStepsPerOctave = 4;
    const auto octave = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows))) / 2;
    return std::min(round_up(rows, std::max(kTileRows, octave / kStepsPerOctave)), most);
  }

 private:
  int64_t most_rows() const { return scratch_.hidden.rows; }
  int32_t shape_of(int64_t rows) const;
  Status record_shape(const VisionModel& model, int32_t shape, int64_t rows, Queue& queue);
  void embed(const TowerPass& pass, int32_t shape, DeviceView<const float> pixels, Queue& queue) const;
  void project_part(const TowerPass& pass, int32_t shape, int32_t projector, DeviceView<float> out, Queue& queue) const;

  VisionScratch scratch_;
  RecordedParts embeddings_;  // [shapes, frames that have a kernel of their own]
  RecordedParts layers_;      // [shapes, 2 * layers]: before a layer's attention, and after it
  RecordedParts projectors_;  // [shapes, the projector, then those of DeepStack]
  int32_t shapes_ = 0;
};

}  // namespace ocellus
