#pragma once

#include "kernels/base/step_tiles.h"
#include "kernels/rows/rope.h"
#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// Decode attention of B rows, one new token each: rotates query and key by the row's angles, stores the new key and
/// value (rounded to f16) in slot new_slot of tile new_tile, and attends to all live slots, the new one included:
/// out[b] = softmax(q[b] . k / sqrt(E)) v, per query head; head h reads key/value head h / (H / G).
///
/// Shapes      query [B, H * E], key, value [B, G * E] (rows may be strided; may be overwritten); angles [B, rotated];
///             tiles on CUDA of at most kTileSlots slots each; out [B, H * E]
/// Packed      packed tiles hold codes of the layer's format (quant/kv_format.h) and are never expanded to memory:
///             steps and offsets of keys are folded into the query and a constant, those of values into the output
///             (CalibQuant, section 4.1); if values have scales by token, tiles are expanded in registers. On CUDA
///             such a tile has at most packed_tile_slots(scales) slots and lies within one block. With calibration,
///             scores of packed slots are calibrated as in kv_run.h; f16 tiles of a step are never copies of packed
///             ones. Tile new_tile is f16, and its counts are ignored
/// Window      tiles.window: see step_tiles.h; only without packed tiles
/// Stored      tiles.stored: an earlier call, with the same arguments but for query and output, has stored key and
///             value; they are as it left them, and the query alone is new (layers that share keys and values)
/// Together    tiles.together: rows may continue each other, and see each other's new slots; not with cache_settled
/// Moved       the query is rotated back by a tile's position shift before it reads it; new_tile is not shifted
/// Types       query, key, value, out activations; cache f16 or codes. CPU: all arithmetic in f32. CUDA: products of
///             f16 (of a query, times the steps of packed keys, and of weights, all rounded to f16) and softmax and
///             sums in f32
/// Work        split over (row, key/value head, piece of the slots); the pieces are combined in a fixed order, so the
///             same inputs give the same bits. On CUDA the number of pieces follows from B, most_tiles and the device,
///             unless rows are batch-invariant (DeviceTraits)
/// Scratch     attend_step_scratch_bytes(...), zeroed once before the first call; a call leaves the part that must be
///             zero (AttendStepScratch::counters_bytes) at zero
/// Divisible   E by 8, E <= kMaxHeadDim; with scales by token and, on CUDA, with packed tiles E by 32; H by G,
///             H / G <= 32
/// Aliasing    out may not overlap query, key or value
/// Errors      kInternal in the queue if scratch is too small
/// A row that is not active gets zeros and stores nothing.
struct AttendStepArgs {
  ActivationView query, key, value;
  HeadShape heads;
  RopeParams rope;
  DeviceView<const float> angles;
  StepTiles tiles;
  KvLayer layer = {};
  /// True if everything but query, key, value and angles was written by work that ended before the recorded step began:
  /// the kernel may read steps, tiles and the cache while the preceding kernels are still running.
  bool cache_settled = false;
  KvCalibration calibration = {};
  ActivationView output;
  DeviceView<std::byte> scratch;
};

/// Scratch of at most `rows` rows of at most `slots` live slots in at most `tiles` tiles each; packed_format: that of
/// any layer, kF16 if no tile is packed.
int64_t attend_step_scratch_bytes(int64_t rows, int64_t slots, int64_t tiles, int32_t query_heads, int32_t kv_heads,
                                  int32_t head_dim, KvFormat packed_format, const DeviceTraits& device);

void attend_step(const AttendStepArgs& args, Queue& queue);

}  // namespace ocellus
