#include <cstring>

#include "kernels/backends.h"
#include "kernels/base/row_pieces.h"
#include "kernels/cache/gather_kv.h"

namespace ocellus {

void cpu::gather_kv(const GatherKvArgs& args, Queue& queue) {
  const KvLayerRows& rows = args.rows;
  const size_t bytes = static_cast<size_t>(rows.head_dim) * sizeof(Half);
  const int64_t width = int64_t{2} * rows.head_dim * kTileSlots;
  queue.parallel(args.run_count * int64_t{rows.heads}, rows_per_piece(width, 65536),
                 [&](int64_t begin, int64_t end, int) {
                   for (int64_t task = begin; task < end; ++task) {
                     const KvRun& run = args.runs[task / rows.heads];
                     const int64_t head = task % rows.heads;
                     const int32_t* from = args.indices + head * args.index_stride + run.counted_before + run.first;
                     Half* keys = run_keys(run, args.layer, head);
                     Half* values = run_values(run, args.layer, head);
                     for (int32_t s = 0, live = live_slots(run, args.layer, rows.heads, head); s < live; ++s) {
                       std::memcpy(keys + int64_t{s} * rows.head_dim, rows.keys + rows.at(from[s], head), bytes);
                       std::memcpy(values + int64_t{s} * rows.head_dim, rows.values + rows.at(from[s], head), bytes);
                     }
                   }
                 });
}

}  // namespace ocellus
