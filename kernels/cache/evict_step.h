#pragma once

#include "kernels/base/slot_ledger.h"
#include "kernels/base/step_tiles.h"
#include "kernels/rows/rope.h"
#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// Eviction during answers, one layer of a decode step of B rows; runs before attend_step. Nothing leaves the device,
/// and nothing waits for the host. First the previous step is settled, for rows with steps[b].eviction.settles:
///
///   sums[j] += latest[j] for every live slot j, if there are sums (H2O carries them from step to step)
///   v        = the slot with the least sum outside the recent window, among equals the newest; without sums the slot
///              with the least position; never one marked kStays
///   v        takes key, value and ledger entry of the newest token, which lies in slot new_slot of tile new_tile
///
/// so that the coming token finds new_slot free again. A packed v cannot take them: the last live row of its block
/// moves into its place (rows of a block are independent under its scales), the block's count goes down by one, and the
/// newest token goes to the end of the newest list of f16 survivors (find_spare), whose count goes up. Then, unless
/// settle_only, the coming token is entered into the ledger at new_slot, and if there are sums latest[j] = mean over
/// the query heads of g of softmax_j(q . k / sqrt(E)) over all live slots and the token itself; with calibration, of
/// the calibrated scores (kv_run.h). Rows that move their sinks (StreamingLLM) have the shift of tile 0 set to the
/// difference between the coming token's position and its place in the cache.
///
/// Shapes    query [B, H * E], key [B, G * E] as passed to attend_step, not rotated; angles [B, rotated]; tiles of
///           row b from tiles[b * tiles_per_row] on, within pages or packed blocks of the ledger's pools, live as for
///           attend_step; a packed tile counts the slots of its own block alone (counted_before 0); on CUDA of at most
///           kTileSlots slots, packed ones of kPackedTileSlots. No scales by token
/// Recent    positions above the newest token's minus steps[b].eviction.recent
/// Types     query, key activations; CPU: f32. CUDA: products of f32 with f16 keys; sums f32 on both
/// Scratch   evict_step_scratch_bytes(...): 0 without sums
/// Divisible E by 8, E <= 256, on CUDA with packed tiles by 32; H by G; H / G <= 64, and H / G * E <= 8192
/// Determinism the same bits whatever the number of threads
/// Errors    kInternal in the queue if scratch is too small
/// Source    H2O (Zhang et al. 2023), StreamingLLM (Xiao et al. 2023), Elastic Cache, section 3.3
struct EvictStepArgs {
  ActivationView query = {}, key = {};
  HeadShape heads = {};
  RopeParams rope = {};
  DeviceView<const float> angles = {};
  OwnStepTiles tiles = {};
  int64_t rows = 0;
  KvLayer layer = {};
  KvCalibration calibration = {};
  bool settle_only = false;
  SlotLedger ledger = {};
  DeviceView<std::byte> scratch = {};
};

/// CUDA: slots that a tile counts as, live or not.
OCELLUS_EVERYWHERE constexpr int32_t evict_tile_slots(KvFormat packed_format) {
  return is_packed(packed_format) ? kPackedTileSlots : kTileSlots;
}

/// Scratch of at most `rows` rows of at most `slots` live slots in at most `tiles` tiles each; packed_format: as for
/// attend_step_scratch_bytes.
int64_t evict_step_scratch_bytes(int64_t rows, int64_t slots, int64_t tiles, int32_t query_heads, int32_t kv_heads,
                                 int32_t head_dim, KvFormat packed_format, const DeviceTraits& device);

void evict_step(const EvictStepArgs& args, Queue& queue);

}  // namespace ocellus
