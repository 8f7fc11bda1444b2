// Shared by the ops of a decode step: the shape of a layer's heads, and the list of what each row sees.
#pragma once

#include "kernels/base/kv_run.h"
#include "kernels/base/step_row.h"

namespace ocellus {

/// Heads of a layer: H, G and E.
struct HeadShape {
  int32_t query = 0;
  int32_t kv = 0;
  int32_t dim = 0;
};

/// Row b's tiles are runs[b * per_row ..]; live ones are 0 .. steps[b].new_tile, the last of them up to new_slot. In
/// the device's memory.
template <class Run>
struct BasicStepTiles {
  const StepRow* steps = nullptr;  // [B]
  Run* runs = nullptr;
  int64_t per_row = 0;
  int64_t most = 0;  // no row has more live tiles than this; at most per_row
};

/// Tiles that are read only, and those that an op may change.
using StepTiles = BasicStepTiles<const KvRun>;
using OwnStepTiles = BasicStepTiles<KvRun>;

}  // namespace ocellus
