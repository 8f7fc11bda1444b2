#include <algorithm>

#include "kernels/backends.h"
#include "kernels/cache/note_slots.h"

namespace ocellus {
namespace {

void note_run(const NoteSlotsArgs& a, const KvRun& run, int64_t layer, int64_t head) {
  const int64_t line = layer * a.kv_heads + head, column = a.ledger.first_slot(run);
  const int32_t live = live_slots(run, layer, a.kv_heads, head);
  if (a.live_counts.data != nullptr) a.live_counts.row(&run - a.runs)[line] = live;
  for (int32_t s = 0; s < live; ++s) {
    const int32_t entry = run.counted_before + run.first + s;
    const int32_t row = a.rows.indices[head * a.rows.index_stride + entry];
    const bool stays = entry + rows_before(a, layer, head, row) < a.stay;
    a.ledger.positions.row(line)[column + s] = stays ? kStays : a.first_position + row;
    if (a.ledger.sums.data == nullptr) continue;
    a.ledger.sums.row(line)[column + s] = a.scores.data != nullptr ? a.scores.row(head)[row] : 0.0f;
  }
}

}  // namespace

void cpu::note_slots(const NoteSlotsArgs& args, Queue& queue) {
  if (!queue.ok()) return;
  for (int32_t layer = args.first_layer; layer < args.first_layer + args.layer_count; ++layer)
    for (int32_t head = 0; head < args.kv_heads; ++head)
      for (int32_t i = 0; i < args.run_count; ++i) note_run(args, args.runs[i], layer, head);
}

}  // namespace ocellus
