#pragma once

#include <cstdint>

#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// Marks of rows in MergeRowsArgs::joined; other rows hold the target that they join, as 0 and more.
inline constexpr int32_t kJoinsNearest = -1, kJoinsNone = -2;

/// Merges rows into the most similar of some target rows: rows[t] = mean of rows[t] and of all rows that join t, for
/// each target t. A row that is marked kJoinsNearest joins the target whose key has the greatest cosine with its own.
///
/// Shapes    rows [T, D], keys [T, E] f32 (both may be strided); targets [count], different, each below T and marked
///           kJoinsNone; joined [T] in device memory: marks, of which kJoinsNearest is replaced by the target's row
/// Types     products and sums in f32; a target's sum in the order of the rows
/// Special   of equal cosines the target that is listed first; the cosine with a key of zeros is 0; a row whose own key
///           is zero or no number joins none
struct MergeRowsArgs {
  DeviceView<float> rows;
  DeviceView<const float> keys;
  const int32_t* targets = nullptr;
  int64_t count = 0;
  int32_t* joined = nullptr;
};
void merge_similar_rows(const MergeRowsArgs& args, Queue& queue);

}  // namespace ocellus
