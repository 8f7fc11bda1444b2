// Planning of a prefill: positions and destinations of rows, and what they see.
#include <algorithm>
#include <cmath>

#include "platform/round_up.h"
#include "runtime/forward/prefill.h"

namespace ocellus {
namespace {

/// Destinations of the rows of a piece, one after the other.
class SlotCursor {
 public:
  /// `packs_images`: compression stores them. `text_goes`: text is dropped, only images are stored.
  SlotCursor(const PromptChunk& chunk, SessionCache& cache, bool packs_images, int32_t head_dim, bool text_goes)
      : cache_(cache),
        packs_images_(packs_images),
        head_dim_(head_dim),
        text_goes_(text_goes),
        text_index_(cache.text_slots()),
        image_slots_(chunk) {}

  KvSlot next(const Piece& piece, int64_t row, int64_t position) {
    if (piece.kind != RowKind::kImage) {
      if (text_goes_) return {};
      cache_.note_text_position(text_index_, position);
      int32_t slot = 0;
      const KvRun run = cache_.text_place(text_index_++, &slot);
      return run_slot(run, slot, head_dim_);
    }
    if (image_slots_.begin(piece.image_ordinal))
      cache_.note_image_position(piece.image_ordinal, position, piece.span.cols);
    const int64_t slot = image_slots_.next(row);
    if (packs_images_) return {};
    return run_slot(cache_.image_block(piece.image_ordinal, 0), slot, head_dim_);
  }

 private:
  SessionCache& cache_;
  bool packs_images_;
  int32_t head_dim_;
  bool text_goes_;
  int64_t text_index_;
  ImageSlots image_slots_;
};

/// The cache before the chunk, and the images linked into it, as listed for attention. On CUDA these are f16 tiles:
/// packed or shifted runs are listed for copying, and their copies take their place.
class PastList {
 public:
  PastList(const SessionCache& cache, const PrefillScratch& s, const DeviceTraits& device, PrefillPlan* plan)
      : cache_(cache), scratch_(s), limits_(TileLimits::of(device)), is_cuda_(device.is_cuda()), plan_(plan) {
    if (is_cuda_) copy_limits_ = TileLimits::of_copies();
  }

  void add_live() {
    cache_.visit_live(copy_limits_, [&](const KvRun& run) { add_slices(read_as(run), 0, run.slots); });
  }
  /// Adds the images between the rows of a chunk, from where they are stored. Runs of an image are slices of the same
  /// copies.
  void add_linked(const PromptChunk& chunk, const SessionCache& images) {
    for (int64_t i = 0, link = 0; i < chunk.linked_image_count; ++i) {
      const LinkedImage& image = chunk.linked_images.data[i];
      int64_t end = link;
      while (end < chunk.link_count && chunk.links.data[end].image == i) ++end;
      int32_t slot = image.in_place;
      images.visit_slots(image.ordinal, slot, image.slots - slot, image.position_shift, [&](const KvRun& block) {
        visit_pieces(block, copy_limits_, dim(), [&](const KvRun& piece) {
          const KvRun run = read_as(piece);
          for (int64_t l = link; l < end; ++l) add_part(run, slot, chunk, chunk.links.data[l]);
          slot += piece.slots;
        });
      });
      link = end;
    }
  }

 private:
  int32_t dim() const { return cache_.shape().head_dim; }
  KvRun read_as(const KvRun& run) {
    if (!is_cuda_ || (!run.packed && run.position_shift == 0)) return run;
    scratch_.past.copies.runs.host.data[plan_->expanded_tiles] = run;
    return scratch_.past.copies.copy_of(run, plan_->expanded_tiles++);
  }
  int64_t first_reader(const PromptChunk& chunk, const LinkedRun& link) const {
    if (scratch_.limits.links.text_alone) return chunk.row_count - 1;
    return scratch_.window.mutual() ? chunk.first_row_beside(link) : link.visible_from;
  }
  /// Adds the part of a run, which begins with slot `first` of its image, that a link covers.
  void add_part(KvRun run, int32_t first, const PromptChunk& chunk, const LinkedRun& link) {
    const int32_t from = std::max(first, link.first_slot),
                  to = std::min(first + run.slots, link.first_slot + link.slots);
    run.visible_from = static_cast<uint16_t>(first_reader(chunk, link));
    if (from < to) add_slices(run, from - first, to - from);
  }
  void add_slices(const KvRun& run, int32_t first, int32_t count) {
    const int32_t most = is_cuda_ ? kTileSlots : limits_.of(run.packed);
    for (int32_t done = 0, slots = 0; done < count; done += slots) {
      slots = std::min(most, count - done);
      scratch_.past.runs.host.data[plan_->past_tiles++] = slice_run(run, first + done, slots, dim());
    }
  }

  const SessionCache& cache_;
  const PrefillScratch& scratch_;
  TileLimits limits_;       // limits of a tile
  TileLimits copy_limits_;  // limits of a copy, which holds several
  bool is_cuda_;
  PrefillPlan* plan_;
};

/// Fills positions and destinations row by row: slot_of(piece, row, position).
template <class SlotOf>
void place_rows(const PromptChunk& chunk, int64_t first_position, SlotOf slot_of, const HostView<KvSlot>& slots,
                const RowPositions& positions) {
  int64_t row = 0;
  for (int64_t p = 0; p < chunk.piece_count; ++p) {
    const Piece& piece = chunk.pieces.data[p];
    for (int64_t i = 0; i < piece.row_count; ++i, ++row) {
      slots.data[row] = slot_of(piece, row, first_position + piece.span.at(i));
      piece.span.write(i, first_position, positions.coordinates, positions.host_row(row));
    }
  }
}

/// Gives rows of images their slots, and those of text none.
void place_images(const PromptChunk& chunk, int64_t first_position, SessionCache& cache, const PrefillScratch& s,
                  int32_t head_dim, PrefillPlan* plan, Queue& queue) {
  const bool packs = s.compress.policy.compresses() && s.links.join == nullptr;
  if (packs) plan->compress = plan_compression(chunk, first_position, cache, s.compress, queue);
  SlotCursor cursor(chunk, cache, packs, head_dim, true);
  const auto slot_of = [&](const Piece& piece, int64_t row, int64_t position) {
    return cursor.next(piece, row, position);
  };
  place_rows(chunk, first_position, slot_of, s.rows.slots.host, s.rows.positions);
}

constexpr auto kNowhere = [](const Piece&, int64_t, int64_t) { return KvSlot(); };

/// Uploads the logarithms of the rows' weights.
void upload_bias(const PromptChunk& chunk, const StagedRows<float>& bias, Queue& queue) {
  const int64_t count = round_up(chunk.row_count, kRowBiasUnit);
  std::fill_n(bias.host.data, count, 0.0f);
  for (int64_t row = 0; chunk.weighs && row < chunk.row_count; ++row)
    bias.host.data[row] = static_cast<float>(std::log(static_cast<double>(chunk.weights.data[row])));
  queue.upload(bias, count);
}

}  // namespace

bool plan_rows(const PromptChunk& chunk, const WindowCaches& caches, const PrefillScratch& s, Queue& queue) {
  std::copy_n(chunk.token_ids.host.data, s.layer_inputs.on() ? chunk.row_count : 0, s.rows.tokens.host.data);
  queue.upload(s.rows.tokens, s.layer_inputs.on() ? chunk.row_count : 0);
  if (s.rows.weighs()) upload_bias(chunk, s.rows.bias, queue);
  const bool sees_ahead = s.window.has_lists() && plan_window(chunk, caches, s, queue);
  if (s.conv.on()) plan_convolutions(chunk, caches, s, queue);
  plan_last_row(chunk.row_count, s, queue);
  return sees_ahead;
}

PrefillPlan plan_prefill(const PromptChunk& chunk, int64_t first_position, SessionCache& cache, int32_t head_dim,
                         const PrefillScratch& s, Queue& queue) {
  PrefillPlan plan{.rows = chunk.row_count};
  LinkJoin* const join = s.links.join;
  const PromptChunk& stored = join != nullptr ? join->stored(chunk) : chunk;
  const SessionCache& images = join != nullptr ? join->images() : cache;
  plan.joins = &stored != &chunk;
  plan.compress = plan_compression(stored, first_position, cache, s.compress, queue);
  const bool all_compete = plan.compress.lists_rows && !plan.compress.one_image;
  const auto competing_slot = [&](int64_t row) { return plan.compress.is_late ? cache.kept().slot(row) : KvSlot(); };
  SlotCursor cursor(stored, cache, s.compress.policy.compresses(), head_dim, false);
  const auto slot_of = [&](const Piece& piece, int64_t row, int64_t position) {
    return all_compete ? competing_slot(row) : cursor.next(piece, row, position);
  };
  if (plan.joins) {
    place_rows(stored, first_position, slot_of, join->slots(), join->positions());
    join->plan(chunk, s, &plan, queue);
    place_rows(chunk, first_position, kNowhere, s.rows.slots.host, s.rows.positions);
  } else {
    place_rows(chunk, first_position, slot_of, s.rows.slots.host, s.rows.positions);
  }
  if (s.dropper != nullptr && !all_compete && stored.text_count > 0)
    s.dropper->note_text(stored, first_position, cache, queue);
  cache.move_sinks(first_position);
  PastList past(cache, s, queue.traits(), &plan);
  past.add_live();
  plan.live_tiles = plan.past_tiles;
  const int64_t first_copied = plan.expanded_tiles;
  past.add_linked(chunk, images);
  if (s.links.change != nullptr) s.links.change->plan(chunk, first_position, images, first_copied, s, queue);
  if (plan.expanded_tiles > 0) queue.upload(s.past.copies.runs, plan.expanded_tiles);
  plan.sees_ahead = plan_rows(chunk, {.past = &cache.ring(), .ring = &cache.ring(), .images = &images}, s, queue);
  return plan;
}

PrefillPlan plan_look(const PromptChunk& chunk, int64_t first_position, const SessionCache& cache,
                      const PrefillScratch& s, Queue& queue) {
  PrefillPlan plan;
  place_rows(chunk, first_position, kNowhere, s.rows.slots.host, s.rows.positions);
  PastList(cache, s, queue.traits(), &plan).add_live();
  if (plan.expanded_tiles > 0) queue.upload(s.past.copies.runs, plan.expanded_tiles);
  plan.sees_ahead = plan_rows(chunk, {.past = &cache.ring()}, s, queue);
  return plan;
}

PrefillPlan plan_prefill_images(const PromptChunk& chunk, int64_t first_position, SessionCache& cache, int32_t head_dim,
                                const PrefillScratch& s, Queue& queue) {
  PrefillPlan plan;
  place_images(chunk, first_position, cache, s, head_dim, &plan, queue);
  PastList past(cache, s, queue.traits(), &plan);
  past.add_live();
  plan.live_tiles = plan.past_tiles;
  past.add_linked(chunk, cache);
  if (plan.expanded_tiles > 0) queue.upload(s.past.copies.runs, plan.expanded_tiles);
  plan.sees_ahead = plan_rows(chunk, {.past = &cache.ring(), .images = &cache}, s, queue);
  return plan;
}

PrefillPlan plan_prefill_alone(const PromptChunk& chunk, SessionCache& cache, int32_t head_dim, const PrefillScratch& s,
                               Queue& queue) {
  PrefillPlan plan;
  place_images(chunk, 0, cache, s, head_dim, &plan, queue);
  if (s.links.change != nullptr) s.links.change->plan_none(queue);
  plan.sees_ahead = plan_rows(chunk, {.images = &cache}, s, queue);
  return plan;
}

}  // namespace ocellus
