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

/// Slot `slot` of tile number `tile`.
struct StepSlot {
  int32_t tile = 0;
  int32_t slot = 0;
};

OCELLUS_EVERYWHERE inline StepSlot ring_slot(int32_t number) { return {number / kTileSlots, number % kTileSlots}; }

/// Row b's tiles are runs[b * per_row ..]; live ones are 0 .. steps[b].new_tile, the last of them up to new_slot. In
/// the device's memory.
///
/// With a window they are a ring of tiles of kTileSlots slots: token number n of the row, counted from
/// position ring_starts[b] on, lies in tile number n / kTileSlots, and number t is runs[t % per_row]. What the row sees
/// of them is live.
template <class Run>
struct BasicStepTiles {
  const StepRow* steps = nullptr;  // [B]
  Run* runs = nullptr;
  int64_t per_row = 0;
  int64_t most = 0;  // no row has more live tiles than this, or with a window sees more; at most per_row
  /// Number of slots that a row sees, the newest ones, its new one among them; 0: all live ones.
  int32_t window = 0;
  const int32_t* ring_starts = nullptr;  // [B] with a window
  bool stored = false;                   // the new slot holds the token's key and value
  bool together = false;                 // a row's live slots may be new ones of other rows

  OCELLUS_EVERYWHERE Run& at(int64_t row, int32_t tile) const {
    if (window == 0) return runs[row * per_row + tile];
    return runs[row * per_row + static_cast<uint32_t>(tile) % static_cast<uint32_t>(per_row)];
  }
  /// The slot of row b's new token.
  StepSlot new_slot(int64_t row) const {
    const StepRow& step = steps[row];
    return window == 0 ? StepSlot{step.new_tile, step.new_slot} : ring_slot(step.position - ring_starts[row]);
  }
};

/// The oldest slot that a row with a window sees.
OCELLUS_EVERYWHERE inline StepSlot window_start(int32_t window, const StepSlot& newest) {
  if (window == 0) return {};
  const int32_t hidden = newest.tile * kTileSlots + newest.slot + 1 - window;
  return hidden <= 0 ? StepSlot{} : ring_slot(hidden);
}

/// Maximum number of tiles that a row with a window sees.
constexpr int64_t most_window_tiles(int64_t window) { return (window + kTileSlots - 2) / kTileSlots + 1; }

/// Tiles that are read only, and those that an op may change.
using StepTiles = BasicStepTiles<const KvRun>;
using OwnStepTiles = BasicStepTiles<KvRun>;

}  // namespace ocellus
