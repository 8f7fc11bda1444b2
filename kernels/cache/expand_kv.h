#pragma once

#include "kernels/base/kv_run.h"
#include "kernels/rows/rope.h"
#include "kernels/rows/store_kv.h"
#include "platform/queue.h"

namespace ocellus {

/// Writes packed or shifted runs of one layer as f16: live slot s of run i becomes row first_row(i) + s of out, its
/// keys rotated by the run's position shift. For prefill on CUDA, where many queries read each slot (decoding reads the
/// packed words themselves), and to put slots from several places in one order.
///
/// Shapes    runs [run_count] of at most rows_per_run <= kPackedTileSlots slots each; first_rows [run_count] or null;
///           out.keys, out.values [G, capacity, E] with capacity >= most_rows(). All in device memory
/// Types     codes or f16 to f16; offset + step * code and the rotation in f32
/// Divisible E by 8 and at most kMaxHeadDim; on CUDA all rows and blocks start on 16 bytes
/// Special   rows without a live slot are not written
/// Errors    kInternal in the queue if out has too few rows
struct ExpandKvArgs {
  const KvRun* runs = nullptr;
  int32_t run_count = 0;
  KvLayer layer = {};
  RopeParams rope;
  KvLayerRows out;
  const int32_t* first_rows = nullptr;  // null: runs lie rows_per_run apart; else the caller answers for their places
  int64_t rows_per_run = kPackedTileSlots;
  int64_t last_run_slots = kPackedTileSlots;  // maximum slots of the last run
  OCELLUS_EVERYWHERE int64_t first_row(int64_t run) const {
    return first_rows == nullptr ? run * rows_per_run : first_rows[run];
  }
  /// Maximum number of rows written, if runs lie rows_per_run apart.
  int64_t most_rows() const {
    return run_count == 0 || first_rows != nullptr
               ? 0
               : (run_count - 1) * rows_per_run + (last_run_slots < rows_per_run ? last_run_slots : rows_per_run);
  }
};
void expand_kv(const ExpandKvArgs& args, Queue& queue);

}  // namespace ocellus
