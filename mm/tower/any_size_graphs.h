// AnySizeGraphs: the vision tower and its projectors on a GPU, for views of any size. What depends on the grid of a
// view's patches, and attention, are plain launches; all between is recorded for a few numbers of rows, to which a view
// is padded. Padding rows hold whatever is there: no recorded op lets one row see another, and attention, positions and
// joining take only the view's own rows.
#pragma once

#include <algorithm>
#include <bit>

#include "mm/tower/vision_tower.h"
#include "platform/recorded_parts.h"

namespace ocellus {

class AnySizeGraphs {
 public:
  /// Runs and records every number of rows. Later calls use the same scratch, of which recordings hold the addresses.
  Status record(const VisionModel& model, const VisionScratch& scratch, Queue& queue);

  /// As encode_views, for a batch of one view. Results are copied from scratch.projected to args.out.
  Status encode(const EncodeArgs& args, Queue& queue);

  /// The smallest recorded number of rows that holds `rows`: multiples of 128 or, from 1,024 on, four per octave; and
  /// `most`, the largest. Tiles of tensor cores have up to 128 rows, so that fewer would not be computed sooner.
  static constexpr int64_t padded_rows(int64_t rows, int64_t most) {
    constexpr int64_t kTileRows = 128, kStepsPerOctave = 4;
    const auto octave = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows))) / 2;
    return std::min(round_up(rows, std::max(kTileRows, octave / kStepsPerOctave)), most);
  }

 private:
  int32_t shape_of(int64_t rows) const;
  Status record_shape(const EncodeArgs& args, int32_t shape, int64_t rows, Queue& queue);

  RecordedParts parts_;
  int64_t most_rows_ = 0;
  int32_t shapes_ = 0;
};

}  // namespace ocellus
