#pragma once

#include "kernels/rows/gather_rows.h"
#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// Chooses rows that are far from each other: the one nearest to the mean of all, then repeatedly the one farthest from
/// those chosen so far (farthest-point sampling: Gonzalez, 1985). The first n picks do not depend on the number of
/// picks.
///
/// Shapes    rows [T, D] f32; ids [T]: candidates are the rows whose id is kSkippedRow, as rows of images are; picks
///           [count], count <= candidates, in the order of choice; least [T], mean [D] scratch
/// Types     distances in f32
/// Special   of equal distances the lower row; picks differ from each other whatever the rows hold
struct SpreadRowsArgs {
  DeviceView<const float> rows;
  const int32_t* ids = nullptr;
  float* least = nullptr;
  float* mean = nullptr;
  int32_t* picks = nullptr;
  int32_t count = 0;
};
void spread_rows(const SpreadRowsArgs& args, Queue& queue);

namespace spread {

/// Markers in place of distances: for chosen rows, and for those whose distance is NaN.
inline constexpr float kChosen = -2, kNoNumber = -1;
inline constexpr float kFar = 3.4028235e38f;

}  // namespace spread

}  // namespace ocellus
