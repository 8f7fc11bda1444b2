// Layers in which a row sees only the newest rows. The part of the past that the chunk's first rows see there is copied
// before the chunk's own rows, so that attention reads one list of rows, from each row's own beginning on. Rows of a
// picture see those after them, too, in some models.
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

/// Lists the newest rows before the chunk, and their places right before its own.
void list_past(const LocalRing* ring, int64_t past, const PrefillScratch& s) {
  const WindowScratch& w = s.window;
  int64_t left = past;
  for (int64_t i = 0; i < w.runs.host.cols; ++i) {
    w.runs.host.data[i] = KvRun();
    w.first_rows.host.data[i] = static_cast<int32_t>(w.past_rows - left);
    if (left == 0) continue;
    const KvRun run = ring->run_from(ring->rows() - left);
    const auto count = static_cast<int32_t>(std::min<int64_t>(run.slots, left));
    w.runs.host.data[i] = slice_run(run, 0, count, w.keys.cols);
    left -= count;
  }
}

void list_seen(int64_t past, const WindowScratch& w) {
  for (int64_t t = 0; t < w.seen.host.cols; ++t) {
    const int64_t own = w.past_rows + t, sees = std::min<int64_t>(past + t + 1, w.positions);
    w.seen.host.data[t] = {static_cast<int32_t>(own + 1 - sees), static_cast<int32_t>(own + 1)};
  }
  for (int64_t t = 0; t < w.seen_globally.host.cols; ++t)
    w.seen_globally.host.data[t] = {0, static_cast<int32_t>(t + 1)};
}

/// Lets every row of a picture see those after it, too; the window hides what is far before it, as in transformers.
void show_picture(const Piece& piece, const WindowScratch& w) {
  const int64_t end = piece.first_row + piece.row_count;
  for (int64_t t = piece.first_row; t < end; ++t) {
    w.seen_globally.host.data[t].end = static_cast<int32_t>(end);
    if (w.on()) w.seen.host.data[t].end = static_cast<int32_t>(w.past_rows + end);
  }
}

/// The chunk's last rows go to the ring, those that later rows see.
void list_slots(int64_t rows, LocalRing* ring, const PrefillScratch& s) {
  const HostView<KvSlot>& slots = s.window.slots.host;
  std::fill_n(slots.data, slots.cols, KvSlot());
  if (ring == nullptr) return;
  const int64_t stored = s.kv.local.stored_of(rows);
  ring->reserve(stored);
  for (int64_t i = 0; i < stored; ++i) slots.data[rows - stored + i] = ring->slot(ring->rows() + i);
}

}  // namespace

Status WindowScratch::lay_out(const TextConfig& c, int64_t max_rows, bool mutual_pictures, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  constexpr Phase kPhase = kPrefillPhase;
  if (mutual_pictures)
    OCELLUS_TRY(seen_globally.lay_out(sink, "rows seen in other layers", kLife, kPhase, 1, max_rows));
  if (c.local.window == 0) return {};
  positions = c.local.window;
  past_rows = round_up(positions - 1, kRowUnit);
  OCELLUS_TRY(take_rows(sink, "angles of local layers", kLife, kPhase, max_rows, c.local.rope.rotated, &angles));
  OCELLUS_TRY(seen.lay_out(sink, "rows seen in local layers", kLife, kPhase, 1, max_rows));
  OCELLUS_TRY(slots.lay_out(sink, "slots of local layers", kLife, kPhase, 1, max_rows));
  OCELLUS_TRY(runs.lay_out(sink, "newest runs", kLife, kPhase, 1, most_window_tiles(positions) + 1));
  return first_rows.lay_out(sink, "rows of the newest runs", kLife, kPhase, 1, runs.host.cols);
}

void plan_window(const PromptChunk& chunk, LocalRing* ring, const PrefillScratch& s, Queue& queue) {
  const WindowScratch& w = s.window;
  const int64_t past = w.on() && ring != nullptr ? ring->seen_rows() : 0;
  list_seen(past, w);
  for (int64_t i = 0; w.mutual() && i < chunk.piece_count; ++i)
    if (const Piece& piece = chunk.pieces.data[i]; piece.kind == RowKind::kImage) show_picture(piece, w);
  queue.upload(w.seen, w.seen.host.cols);
  queue.upload(w.seen_globally, w.seen_globally.host.cols);
  if (!w.on()) return;
  list_past(ring, past, s);
  list_slots(chunk.row_count, ring, s);
  // Rows before those in use are read, too, and must be finite.
  clear_rows(w.keys, queue);
  clear_rows(w.values, queue);
  queue.upload(w.runs, w.runs.host.cols);
  queue.upload(w.first_rows, w.first_rows.host.cols);
  queue.upload(w.slots, w.slots.host.cols);
}

void copy_window(const LayerPass& pass, Queue& q) {
  const WindowScratch& w = pass.scratch.window;
  const TextConfig& c = pass.config();
  expand_kv({.runs = w.runs.device.data,
             .run_count = static_cast<int32_t>(w.runs.device.cols),
             .layer = {.index = pass.cache_layer()},
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
               .row_count = w.past_rows + known_rows(pass, block, q),
               .bounds = RowBounds::listed(w.seen.device.data + block.first),
               .output = block.rows.mixed,
               .scratch = block.rows.matmul_scratch},
              q);
}

}  // namespace ocellus
