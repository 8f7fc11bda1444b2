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
  int64_t most = 0;  // no row has more live tiles than this, or with a window sees more; at most per_row
  /// Number of slots that a row sees, the newest ones, its new one among them; 0: all live ones. With a window all
  /// tiles before the newest hold kTileSlots slots, in the order of their positions.
  int32_t window = 0;
};

/// The oldest slot that a row with a window sees: slot `slot` of tile `tile`.
struct WindowStart {
  int32_t tile = 0;
  int32_t slot = 0;
};
OCELLUS_EVERYWHERE inline WindowStart window_start(int32_t window, int32_t new_tile, int32_t new_slot) {
  if (window == 0) return {};
  const int64_t hidden = int64_t{new_tile} * kTileSlots + new_slot + 1 - window;  // inactive rows have any numbers
  if (hidden <= 0) return {};
  return {static_cast<int32_t>(hidden / kTileSlots), static_cast<int32_t>(hidden % kTileSlots)};
}

/// Maximum number of tiles that a row with a window sees.
constexpr int64_t most_window_tiles(int64_t window) { return (window + kTileSlots - 2) / kTileSlots + 1; }

/// Tiles that are read only, and those that an op may change.
using StepTiles = BasicStepTiles<const KvRun>;
using OwnStepTiles = BasicStepTiles<KvRun>;

}  // namespace ocellus
