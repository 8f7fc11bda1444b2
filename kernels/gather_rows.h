#pragma once

#include "platform/queue.h"
#include "platform/views.h"
#include "quant/weight_format.h"

namespace ocellus {

/// out[t] = table[ids[t]] decoded to f32: the token embedding.
///
/// Shapes    ids [T]; table [V, D] in any weight format; out [T, D]
/// Errors    kInternal in the queue if an id is outside 0..V-1 (checked: ids come from data)
struct GatherRowsArgs {
  const int32_t* ids = nullptr;
  int64_t count = 0;
  WeightView table;
  DeviceView<float> output;
};

void gather_rows(const GatherRowsArgs& args, Queue& queue);

}  // namespace ocellus
