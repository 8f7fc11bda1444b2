// Views of a clip's frames: sizes of their own and, in some families, places in one block of positions.
#pragma once

#include "mm/views/view_plan.h"

namespace ocellus {

/// Returns the facts for the frames of clips.
PreprocessConfig of_clip(const PreprocessConfig& config);

/// Place of a picture of a clip in a block of pictures at the same lines and columns, each `step` positions later.
struct TimePlace {
  int32_t index = 0;
  int32_t count = 1;
  int32_t step = 0;
};

/// Gives the plan of a picture of one view its place. A block ends after its latest time, or after its last line or
/// column.
void place_in_time(const TimePlace& place, ViewPlan* plan);

}  // namespace ocellus
