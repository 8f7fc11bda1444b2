#pragma once

#include <cstdint>

#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// cosines[i] = the cosine of rows[list[i]] and rows[others[i]] or, without others, of rows[list[i]] and the mean of
/// the `texts` rows, each divided by its length. 0 where a row is all zeros.
///
/// Shapes    rows [T, D] f32, possibly strided; list and others [count]; texts [text_count], one at least without
///           others; mean [D] scratch, without others; cosines [count]. All in device memory
/// Types     sums in f32
struct RowCosinesArgs {
  DeviceView<const float> rows = {};
  const int32_t* list = nullptr;
  const int32_t* others = nullptr;
  int64_t count = 0;
  const int32_t* texts = nullptr;
  int64_t text_count = 0;
  float* mean = nullptr;
  float* cosines = nullptr;
};
void row_cosines(const RowCosinesArgs& args, Queue& queue);

}  // namespace ocellus
