#pragma once

#include <cmath>

#include "kernels/rows/gather_rows.h"
#include "platform/everywhere.h"
#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// Distance of two rows, and the row that is chosen first.
enum class SpreadBy : uint8_t {
  kPlace,  // (a - b)^2; first the row nearest to the mean of all. Ours
  kAngle,  // 1 - cos(a, b), with 0 instead of a cosine of a row of zeros; first the row whose nearest other row is
           // farthest (DivPrune, Alvar et al. 2025, algorithm 1)
};

/// Chooses rows that are far from each other: a first one, then repeatedly the one farthest from those chosen so far
/// (farthest-point sampling: Gonzalez, 1985). The first n picks do not depend on the number of picks.
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
  SpreadBy by = SpreadBy::kPlace;
};
void spread_rows(const SpreadRowsArgs& args, Queue& queue);

namespace spread {

/// Markers in place of distances: for chosen rows, and for those whose distance is NaN.
inline constexpr float kChosen = -2, kNoNumber = -1;
inline constexpr float kFar = 3.4028235e38f;

/// From the products of two rows with each other and with themselves.
OCELLUS_EVERYWHERE inline float angle_distance(float ab, float aa, float bb) {
  if (aa == 0 || bb == 0) return 1;
  const float distance = 1 - ab / (std::sqrt(aa) * std::sqrt(bb));
  return distance < 0 ? 0 : distance;  // rounding
}

}  // namespace spread

}  // namespace ocellus
