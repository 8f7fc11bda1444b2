// Layers in which a row sees only the newest rows. The part of the past that the chunk's first rows see there is copied
// before the chunk's own rows, and linked slots between them, so that attention reads one list of rows, from each row's
// own beginning on. Rows of a picture see those after them, too, in some models.
#include <algorithm>

#include "kernels/attention/attend_rows.h"
#include "kernels/base/step_tiles.h"
#include "kernels/cache/expand_kv.h"
#include "platform/round_up.h"
#include "runtime/forward/copied_runs.h"
#include "runtime/forward/prefill.h"

namespace ocellus {
namespace {

/// Attention's blocks of rows begin at multiples of this.
constexpr int64_t kRowUnit = 64;

/// Puts a chunk's rows and linked slots in the order of the prompt, and lists what each row sees.
class WindowList {
 public:
  WindowList(const PromptChunk& chunk, const WindowCaches& caches, const PrefillScratch& s)
      : chunk_(chunk),
        caches_(caches),
        s_(s),
        w_(s.window),
        copies_(w_.runs.host, w_.first_rows.host, w_.kv.keys.cols),
        image_slots_(chunk),
        past_(w_.on() && caches.past != nullptr ? caches.past->seen_rows() : 0) {}

  void list() {
    if (w_.on()) copy_past();
    std::fill_n(w_.image_slots.host.data, w_.image_slots.host.cols, KvSlot());
    chunk_.visit_parts([&](const Piece& piece, int64_t, int64_t count) { add_rows(piece, count); },
                       [&](const LinkedRun& link) { add_link(link); });
    show_view();
    stored_rows_ = place_;
    while (row_ < s_.rows.slots.host.cols) place_row();  // padding
    std::fill(w_.runs.host.data + copies_.count(), w_.runs.host.data + w_.runs.host.cols, KvRun());
    std::fill(w_.first_rows.host.data + copies_.count(), w_.first_rows.host.data + w_.first_rows.host.cols, 0);
  }
  /// The last rows and slots go to the ring, those that later rows see.
  void list_ring_slots() const {
    const HostView<KvSlot>& slots = w_.slots.host;
    std::fill_n(slots.data, slots.cols, KvSlot());
    if (caches_.ring == nullptr) return;
    const int64_t stored = s_.limits.kv.local.stored_of(stored_rows_);
    caches_.ring->reserve(stored);
    for (int64_t i = 0; i < stored; ++i)
      slots.data[stored_rows_ - stored + i] = caches_.ring->slot(caches_.ring->rows() + i);
  }
  bool sees_ahead() const { return sees_ahead_; }

 private:
  /// The newest rows before the chunk stand right before its own.
  void copy_past() {
    for (int64_t left = past_; left > 0;) {
      const KvRun run = caches_.past->run_from(caches_.past->rows() - left);
      const auto count = static_cast<int32_t>(std::min<int64_t>(run.slots, left));
      copies_.add(slice_run(run, 0, count, w_.kv.keys.cols), w_.past_rows - left);
      left -= count;
    }
  }
  void add_rows(const Piece& piece, int64_t count) {
    enter_view(piece.kind, piece.image_ordinal);
    const bool is_kept = piece.kind == RowKind::kImage && w_.links();
    if (is_kept) image_slots_.begin(piece.image_ordinal);
    for (int64_t i = 0; i < count; ++i) {
      if (is_kept) keep_image_row(piece.image_ordinal);
      place_row();
    }
  }
  void add_link(const LinkedRun& link) {
    enter_view(RowKind::kLinked, link.image);
    if (w_.links()) copy_link(link);
    place_ += link.slots;
  }
  void copy_link(const LinkedRun& link) {
    const LinkedImage& image = chunk_.linked_images.data[link.image];
    int64_t row = w_.past_rows + place_;
    const auto copy = [&](const KvRun& run) {
      copies_.add(run, row);
      row += run.slots;
    };
    caches_.images->visit_slots(image.ordinal, link.first_slot, link.slots, image.position_shift, copy, true);
  }
  void keep_image_row(int32_t image) {
    const int64_t slot = image_slots_.next(row_), size = caches_.images->shape().block_slots;
    const KvRun block = caches_.images->local_image_block(image, static_cast<int32_t>(slot / size));
    w_.image_slots.host.data[place_] = run_slot(block, slot % size, w_.kv.keys.cols);
  }
  /// Gives the next row the next place.
  void place_row() {
    if (w_.on()) {
      const int64_t end = w_.past_rows + place_ + 1, sees = std::min<int64_t>(past_ + place_ + 1, w_.positions);
      w_.seen.host.data[row_] = {static_cast<int32_t>(end - sees), static_cast<int32_t>(end)};
    }
    if (w_.mutual()) w_.seen_globally.host.data[row_] = {0, static_cast<int32_t>(row_ + 1)};
    if (w_.links()) w_.places.host.data[row_] = static_cast<int32_t>(place_);
    ++place_;
    ++row_;
  }
  /// The next rows or slots belong to a picture, or to the text between pictures.
  void enter_view(RowKind kind, int32_t image) {
    if (view_kind_ == kind && view_image_ == image) return;
    show_view();
    view_kind_ = kind;
    view_image_ = image;
    view_row_ = row_;
  }
  /// Ends a view: each of its rows sees those after it, too; the window hides what is far before it, as in
  /// transformers.
  void show_view() {
    if (view_kind_ == RowKind::kText || !w_.mutual() || row_ == view_row_) return;
    for (int64_t t = view_row_; t < row_; ++t) {
      w_.seen_globally.host.data[t].end = static_cast<int32_t>(row_);
      if (w_.on()) w_.seen.host.data[t].end = static_cast<int32_t>(w_.past_rows + place_);
    }
    sees_ahead_ = sees_ahead_ || view_row_ / s_.limits.block_rows != (row_ - 1) / s_.limits.block_rows;
  }

  const PromptChunk& chunk_;
  const WindowCaches& caches_;
  const PrefillScratch& s_;
  const WindowScratch& w_;
  CopiedRuns copies_;
  ImageSlots image_slots_;
  int64_t past_;
  int64_t row_ = 0, place_ = 0;  // the next ones
  int64_t stored_rows_ = 0;
  bool sees_ahead_ = false;
  RowKind view_kind_ = RowKind::kText;
  int32_t view_image_ = 0;
  int64_t view_row_ = 0;
};

}  // namespace

Status WindowScratch::lay_out(const TextConfig& c, const PrefillLimits& limits, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  constexpr Phase kPhase = kPrefillPhase;
  const int64_t rows = limits.rows;
  if (limits.mutual_pictures)
    OCELLUS_TRY(seen_globally.lay_out(sink, "rows seen in other layers", kLife, kPhase, 1, rows));
  if (!c.has_windows()) return {};
  positions = c.local.window;
  past_rows = round_up(positions - 1, kRowUnit);
  linked_slots = limits.links.images * limits.links.slots;
  OCELLUS_TRY(take_rows(sink, "angles of local layers", kLife, kPhase, rows, c.local.rope.rotated, &angles));
  OCELLUS_TRY(seen.lay_out(sink, "rows seen in local layers", kLife, kPhase, 1, rows));
  OCELLUS_TRY(slots.lay_out(sink, "slots of local layers", kLife, kPhase, 1, rows + linked_slots));
  const int64_t copied = most_window_tiles(positions) + 1 + limits.links.copies;
  OCELLUS_TRY(runs.lay_out(sink, "newest runs", kLife, kPhase, 1, copied));
  OCELLUS_TRY(first_rows.lay_out(sink, "rows of the newest runs", kLife, kPhase, 1, copied));
  if (!links()) return {};
  OCELLUS_TRY(places.lay_out(sink, "places among linked slots", kLife, kPhase, 1, rows));
  return image_slots.lay_out(sink, "local slots of pictures", kLife, kPhase, 1, rows + linked_slots);
}

bool plan_window(const PromptChunk& chunk, const WindowCaches& caches, const PrefillScratch& s, Queue& queue) {
  const WindowScratch& w = s.window;
  WindowList rows(chunk, caches, s);
  rows.list();
  queue.upload(w.seen, w.seen.host.cols);
  queue.upload(w.seen_globally, w.seen_globally.host.cols);
  if (!w.on()) return rows.sees_ahead();
  rows.list_ring_slots();
  // Rows before those in use are read, too, and must be finite.
  clear_rows(w.kv.keys, queue);
  clear_rows(w.kv.values, queue);
  queue.upload(w.runs, w.runs.host.cols);
  queue.upload(w.first_rows, w.first_rows.host.cols);
  queue.upload(w.places, w.places.host.cols);
  queue.upload(w.slots, w.slots.host.cols);
  queue.upload(w.image_slots, w.image_slots.host.cols);
  return rows.sees_ahead();
}

void copy_window(const LayerPass& pass, Queue& q) {
  const WindowScratch& w = pass.scratch.window;
  expand_kv({.runs = w.runs.device.data,
             .run_count = static_cast<int32_t>(w.runs.device.cols),
             .layer = {.index = pass.cache_layer()},
             .rope = pass.config().local.rope,
             .out = pass.scratch.all_rows(true),
             .first_rows = w.first_rows.device.data},
            q);
}

void attend_window(const LayerPass& pass, const RowBlock& block, Queue& q) {
  const WindowScratch& w = pass.scratch.window;
  const KvLayerRows rows = pass.scratch.all_rows(true);
  attend_rows({.query = block.rows.query,
               .query_heads = pass.config().query_heads,
               .rows = rows,
               .first_row = w.past_rows + block.first,
               .row_count = w.links() ? rows.capacity : w.past_rows + known_rows(pass, block, q),
               .bounds = block.bounds,
               .output = block.rows.mixed,
               .scratch = block.rows.matmul_scratch},
              q);
}

void store_window(const LayerPass& pass, int64_t rows, Queue& q) {
  const WindowScratch& w = pass.scratch.window;
  const auto store = [&](const StagedRows<KvSlot>& slots) {
    store_kv({.rows = pass.own_rows(),
              .count = w.links() ? slots.device.cols : rows,
              .slots = slots.device.data,
              .layer = pass.cache_layer()},
             q);
  };
  store(w.slots);
  if (w.links()) store(w.image_slots);
}

}  // namespace ocellus
