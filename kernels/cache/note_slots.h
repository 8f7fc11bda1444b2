#pragma once

#include "kernels/base/slot_ledger.h"
#include "platform/queue.h"

namespace ocellus {

/// Lists of kept rows, by head.
struct NotedRows {
  const int32_t* indices = nullptr;
  int64_t index_stride = 0;
  const int32_t* others = nullptr;  // the other list of each head; null: none
  const int32_t* other_counts = nullptr;
};

/// Enters stored rows into the ledger: slot s of a run is entry i = counted_before + first + s of its head's list, and
/// holds row r = indices[g * index_stride + i]. Its position becomes first_position + r, or kStays for one of the first
/// `stay` rows of both lists, its sum scores[g][r], or 0 without scores.
///
/// Shapes    runs [run_count], each within a page or a block; indices and, if any, others [index_stride] per head,
///           ascending, or one list for all with stride 0; other_counts [layers * G]; scores [G, rows] or empty;
///           live_counts [run_count, layers * G] or empty, to which the runs' live slots are written. All in the
///           device's memory
/// Layers    first_layer .. first_layer + layer_count - 1, with the same lists
struct NoteSlotsArgs {
  SlotLedger ledger = {};
  const KvRun* runs = nullptr;
  int32_t run_count = 0;
  NotedRows rows = {};
  DeviceView<int32_t> live_counts = {};
  int32_t first_position = 0;
  DeviceView<const float> scores = {};
  int32_t stay = 0;
  int32_t first_layer = 0;
  int32_t layer_count = 1;
  int32_t kv_heads = 0;
};
void note_slots(const NoteSlotsArgs& args, Queue& queue);

/// Number of rows before `row` in the other list of a head.
OCELLUS_EVERYWHERE inline int32_t rows_before(const NoteSlotsArgs& args, int64_t layer, int64_t head, int32_t row) {
  if (args.rows.others == nullptr) return 0;
  const int32_t* list = args.rows.others + head * args.rows.index_stride;
  int32_t first = 0, end = args.rows.other_counts[layer * args.kv_heads + head];
  while (first < end) {
    const int32_t middle = (first + end) / 2;
    if (list[middle] < row)
      first = middle + 1;
    else
      end = middle;
  }
  return first;
}

}  // namespace ocellus
