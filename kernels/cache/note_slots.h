#pragma once

#include "kernels/base/slot_ledger.h"
#include "platform/queue.h"

namespace ocellus {

/// Enters rows that were stored in f16 runs into the ledger: slot s of a run is entry i = counted_before + first + s of
/// its head's list, and holds row r = indices[g * index_stride + i]. Its position becomes first_position + r, or kStays
/// for i < stay, its sum scores[g][r], or 0 without scores.
///
/// Shapes    runs [run_count], each within a page; indices [index_stride] per head, or one list for all with stride 0;
///           scores [G, rows] or empty. All in the device's memory
/// Layers    first_layer .. first_layer + layer_count - 1, with the same lists
struct NoteSlotsArgs {
  SlotLedger ledger = {};
  const KvRun* runs = nullptr;
  int32_t run_count = 0;
  const int32_t* indices = nullptr;
  int64_t index_stride = 0;
  int32_t first_position = 0;
  DeviceView<const float> scores = {};
  int32_t stay = 0;
  int32_t first_layer = 0;
  int32_t layer_count = 1;
  int32_t kv_heads = 0;
};
void note_slots(const NoteSlotsArgs& args, Queue& queue);

}  // namespace ocellus
