#include "kernels/backends.h"
#include "kernels/base/device_math.cuh"
#include "kernels/base/launch.cuh"
#include "kernels/cache/note_slots.h"

namespace ocellus {
namespace cuda {
namespace {

/// A block enters the slots of one run in one layer and head.
__global__ void note_run(const __grid_constant__ NoteSlotsArgs a) {
  wait_for_inputs();
  let_next_start();
  const KvRun run = a.runs[blockIdx.x];
  const int64_t head = blockIdx.y, layer = a.first_layer + int64_t{blockIdx.z}, line = layer * a.kv_heads + head;
  const int64_t column = a.ledger.first_slot(run);
  const int live = live_slots(run, layer, a.kv_heads, head);
  if (a.live_counts.data != nullptr && threadIdx.x == 0)
    a.live_counts.data[blockIdx.x * a.live_counts.stride + line] = live;
  for (int s = static_cast<int>(threadIdx.x); s < live; s += static_cast<int>(blockDim.x)) {
    const int32_t entry = run.counted_before + run.first + s;
    const int32_t row = a.rows.indices[head * a.rows.index_stride + entry];
    const bool stays = entry + rows_before(a, layer, head, row) < a.stay;
    a.ledger.positions.data[line * a.ledger.positions.stride + column + s] = stays ? kStays : a.first_position + row;
    if (a.ledger.sums.data == nullptr) continue;
    a.ledger.sums.data[line * a.ledger.sums.stride + column + s] =
        a.scores.data != nullptr ? a.scores.data[head * a.scores.stride + row] : 0.0f;
  }
}

}  // namespace

void note_slots(const NoteSlotsArgs& args, Queue& queue) {
  const dim3 grid(static_cast<unsigned>(args.run_count), static_cast<unsigned>(args.kv_heads),
                  static_cast<unsigned>(args.layer_count));
  launch<note_run>(queue, "note_slots", {.grid = grid, .threads = kWarp}, args);
}

}  // namespace cuda
}  // namespace ocellus
