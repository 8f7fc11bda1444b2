// Layers in which a row sees only the newest rows, and pictures whose rows see each other: what a prefill keeps for
// them.
#pragma once

#include "kernels/attention/attend_rows.h"
#include "platform/arena.h"
#include "platform/queue.h"
#include "runtime/cache/prompt_chunk.h"

namespace ocellus {

struct LayerPass;
struct PrefillLimits;
struct PrefillScratch;
struct RowBlock;

/// Keys and values of one layer.
struct LayerKv {
  DeviceView<Half> keys, values;  // [G * rows, E], head-major

  KvLayerRows of(int32_t kv_heads) const {
    return KvLayerRows::head_major(keys.data, values.data, kv_heads, static_cast<int32_t>(keys.cols),
                                   keys.rows / kv_heads);
  }
};

/// Layers with a window, for models that have them: their rotation, and what a chunk's rows see. Linked slots stand
/// among the chunk's rows there, in the order of the prompt, so that what a row sees is one stretch. Memory and lists
/// have the size of the window whatever the past, so that recordings need not know it.
struct WindowScratch {
  int64_t positions = 0;              // rows that a row sees, its own among them
  int64_t past_rows = 0;              // rows before the chunk's own ones that hold the newest of the past
  int64_t linked_slots = 0;           // maximum of linked slots among the chunk's rows; J = T + linked_slots
  LayerKv kv;                         // [G * (past rows + J), E] those of PrefillScratch, or their own if both kinds
                                      // are needed together
  DeviceView<float> angles;           // [T, rotated]
  StagedRows<RowSpan> seen;           // [1, T]
  StagedRows<RowSpan> seen_globally;  // [1, T] in layers without a window, if rows of a picture see each other
  StagedRows<KvRun> runs;             // [1, runs] the newest rows before the chunk, then linked slots
  StagedRows<int32_t> first_rows;     // [1, runs]
  StagedRows<int32_t> places;         // [1, T] where the chunk's rows stand among linked slots, if there may be any
  StagedRows<KvSlot> slots;           // [1, J] destinations in the ring: those of rows that later ones see
  StagedRows<KvSlot> image_slots;     // [1, J] destinations of pictures' rows in blocks that keep these layers

  Status lay_out(const TextConfig& config, const PrefillLimits& limits, RowSink& sink);
  bool on() const { return positions > 0; }
  bool links() const { return linked_slots > 0; }
  const int32_t* places_from(int64_t row) const { return links() ? places.device.data + row : nullptr; }
  bool has_lists() const { return on() || mutual(); }
  /// True if rows of a picture see each other, so that a block's rows may see later blocks'.
  bool mutual() const { return seen_globally.host.cols > 0; }
  /// Bounds of rows from `first` on in layers with a window, and in those without.
  RowBounds bounds(int64_t first) const { return RowBounds::listed(seen.device.data + first); }
  RowBounds global_bounds(int64_t first) const {
    return mutual() ? RowBounds::listed(seen_globally.device.data + first) : RowBounds::causal();
  }
};

/// Caches that a chunk meets in layers with a window.
struct WindowCaches {
  const LocalRing* past = nullptr;       // the rows before it; null: there are none
  LocalRing* ring = nullptr;             // to which its last rows go; null: to none
  const SessionCache* images = nullptr;  // pictures linked into it, and its own if their blocks keep these layers
};

/// Fills and uploads the lists of a chunk, and clears the rows. Returns true if a picture whose rows see each other
/// lies in several blocks.
bool plan_window(const PromptChunk& chunk, const WindowCaches& caches, const PrefillScratch& scratch, Queue& queue);
/// Copies the newest slots of the past and linked ones, before the blocks of a layer with a window.
void copy_window(const LayerPass& pass, Queue& queue);
/// The attention of such a layer.
void attend_window(const LayerPass& pass, const RowBlock& block, Queue& queue);
/// Stores its keys and values. `rows`: of the chunk.
void store_window(const LayerPass& pass, int64_t rows, Queue& queue);

}  // namespace ocellus
