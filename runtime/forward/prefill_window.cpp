// Layers in which a row sees only the newest positions. The part of the past that the chunk's first rows see there is
// copied before the chunk's own rows, so that attention reads one list of rows, from each row's own beginning on.
#include <algorithm>

#include "kernels/attention/attend_rows.h"
#include "kernels/base/step_tiles.h"
#include "kernels/cache/expand_kv.h"
#include "platform/round_up.h"
#include "runtime/forward/prefill.h"

namespace ocellus {
namespace {

/// Attention's blocks of rows begin at multiples of this.
constexpr int64_t kRowUnit = 64;

}  // namespace

Status WindowScratch::lay_out(const TextConfig& c, int64_t max_rows, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  positions = c.local.window;
  past_rows = round_up(positions - 1, kRowUnit);
  OCELLUS_TRY(take_rows(sink, "angles of local layers", kLife, kPrefillPhase, max_rows, c.local.rope.rotated, &angles));
  OCELLUS_TRY(seen.lay_out(sink, "rows seen in local layers", kLife, kPrefillPhase, 1, max_rows));
  OCELLUS_TRY(runs.lay_out(sink, "newest runs", kLife, kPrefillPhase, 1, most_window_tiles(positions)));
  return first_rows.lay_out(sink, "rows of the newest runs", kLife, kPrefillPhase, 1, runs.host.cols);
}

void plan_window(const SessionCache* cache, const PrefillScratch& s, Queue& queue) {
  const WindowScratch& w = s.window;
  const int64_t end = cache == nullptr ? 0 : cache->text_slots(), past = std::min<int64_t>(end, w.positions - 1);
  int64_t slot = end - past, row = w.past_rows - past;
  for (int64_t i = 0; i < w.runs.host.cols; ++i) {
    w.runs.host.data[i] = KvRun();
    w.first_rows.host.data[i] = static_cast<int32_t>(row);
    if (slot == end) continue;
    int32_t first = 0;
    const KvRun run = cache->text_place(slot, &first);
    const auto count = static_cast<int32_t>(std::min<int64_t>(kPageSlots - first, end - slot));
    w.runs.host.data[i] = slice_run(run, first, count, s.keys.cols);
    slot += count;
    row += count;
  }
  for (int64_t t = 0; t < w.seen.host.cols; ++t) {
    const int64_t own = w.past_rows + t, sees = std::min<int64_t>(past + t + 1, w.positions);
    w.seen.host.data[t] = {static_cast<int32_t>(own + 1 - sees), static_cast<int32_t>(own + 1)};
  }
  // Rows before those in use are read, too, and must be finite.
  clear_rows(s.keys, queue);
  clear_rows(s.values, queue);
  queue.upload(w.runs, w.runs.host.cols);
  queue.upload(w.first_rows, w.first_rows.host.cols);
  queue.upload(w.seen, w.seen.host.cols);
}

void copy_window(const LayerPass& pass, Queue& q) {
  const WindowScratch& w = pass.scratch.window;
  const TextConfig& c = pass.config();
  expand_kv({.runs = w.runs.device.data,
             .run_count = static_cast<int32_t>(w.runs.device.cols),
             .layer = {.index = pass.layer},
             .rope = c.local.rope,
             .out = pass.scratch.window_rows(c),
             .first_rows = w.first_rows.device.data},
            q);
}

void attend_window(const LayerPass& pass, const RowBlock& block, Queue& q) {
  const WindowScratch& w = pass.scratch.window;
  const int64_t first = w.past_rows + block.first;
  attend_rows({.query = block.rows.query,
               .query_heads = pass.config().query_heads,
               .rows = pass.scratch.window_rows(pass.config()),
               .first_row = first,
               .row_count = first + block.hidden.rows,
               .bounds = RowBounds::listed(w.seen.device.data + block.first),
               .output = block.rows.mixed,
               .scratch = block.rows.matmul_scratch},
              q);
}

}  // namespace ocellus
