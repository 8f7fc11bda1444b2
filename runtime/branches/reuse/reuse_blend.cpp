// CacheBlend (Yao et al. 2025) for linked images: the rows that are computed in place are chosen for each prompt. All
// rows go through the first two layers; those whose values in the second one differ most from the stored ones, a
// percentage of all images' rows together, then go through the model with the text, and the others are read where they
// are stored. Keys and values of the first layer depend only on their rows, so nothing is lost by starting over. As in
// LMCache only the chosen rows are replaced in the second layer; by the change of values, as in its authors' code, not
// of keys.
#include <algorithm>
#include <cmath>

#include "kernels/cache/value_change.h"
#include "runtime/branches/reuse/reuse.h"
#include "runtime/engine/engine.h"

namespace ocellus {
namespace {

constexpr int32_t kCheckedLayer = 1;

/// The slots of a chunk's linked images, in the order of their rows.
class LinkedSlots {
 public:
  explicit LinkedSlots(const PromptChunk& chunk) : chunk_(chunk) {}
  void next() {
    if (++slot_ < image().slots) return;
    ++number_;
    slot_ = 0;
  }
  const LinkedImage& image() const { return chunk_.linked_images.data[number_]; }
  int32_t number() const { return number_; }
  int32_t slot() const { return slot_; }

 private:
  const PromptChunk& chunk_;
  int32_t number_ = 0, slot_ = 0;
};

/// Lists the slots that rows are compared with; text has none. `local`: those of layers with a window.
void list_stored(const PromptChunk& chunk, const SessionCache& cache, bool local, const BlendScratch& s) {
  LinkedSlots at(chunk);
  const KvShape& shape = cache.shape();
  const int32_t size = shape.block_slots, head_dim = local ? shape.local.head_dim : shape.head_dim;
  for (int64_t row = 0; row < chunk.row_count; ++row) {
    KvSlot& slot = s.stored.host.data[row];
    slot = {};
    if (chunk.is_text(row)) continue;
    const int32_t image = at.image().ordinal, block = at.slot() / size;
    const KvRun run = local ? cache.local_image_block(image, block) : cache.image_block(image, block);
    slot = run_slot(run, at.slot() % size, head_dim);
    at.next();
  }
}

/// Finds the `percent` of all linked rows that changed most, ascending; returns their number.
int64_t choose_most_changed(const PromptChunk& chunk, int32_t percent, const BlendScratch& s) {
  float* const changes = s.changes.host.data;
  int32_t* const order = s.order.data;
  int64_t linked = 0;
  for (int64_t row = 0; row < chunk.row_count; ++row) {
    if (chunk.is_text(row)) continue;
    if (std::isnan(changes[row])) changes[row] = 0;  // a total order is needed
    order[linked++] = static_cast<int32_t>(row);
  }
  const int64_t count = linked * percent / 100;
  std::nth_element(order, order + count, order + linked,
                   [&](int32_t a, int32_t b) { return changes[a] != changes[b] ? changes[a] > changes[b] : a < b; });
  std::sort(order, order + count);
  return count;
}

/// Linked rows but the chosen ones become links to where they are stored. `cache`: keeps them stored there; null: they
/// are staged. The chunk is written anew from its front while it is read: rows from their places, which come no sooner,
/// and pieces from a copy at the end of their list. There are no more of those than rows, so that none is written over
/// before it was read.
void link_others(const int32_t* chosen, int64_t count, PromptChunk& chunk, SessionCache* cache) {
  LinkedSlots at(chunk);
  const int64_t positions = chunk.position_count, pieces = chunk.piece_count;
  Piece* const all = chunk.pieces.data + chunk.pieces.cols - pieces;
  std::copy_backward(chunk.pieces.data, chunk.pieces.data + pieces, all + pieces);
  chunk.clear_rows();
  int64_t pick = 0, source = 0;
  for (int64_t p = 0; p < pieces; ++p) {
    const Piece piece = all[p];
    chunk.position_count = piece.span.at(0);
    if (piece.kind == RowKind::kText) chunk.add_text(chunk.token_ids.host.data + piece.first_row, piece.row_count);
    for (int64_t i = 0; piece.kind == RowKind::kLinked && i < piece.row_count; ++i, ++source, at.next()) {
      if (pick < count && chosen[pick] == piece.first_row + i) {
        if (cache != nullptr) cache->note_hole(at.image().ordinal, at.slot());
        chunk.add_linked_rows(at.number(), 1, source, piece.span.from(i));
        ++pick;
      } else {
        chunk.add_link(at.number(), at.slot(), 1, piece.span.from(i));
      }
    }
  }
  chunk.position_count = positions;
  for (int64_t i = 0; i < chunk.linked_image_count; ++i) chunk.linked_images.data[i].in_place = 0;
}

}  // namespace

Status BlendScratch::lay_out(const TextConfig&, int64_t rows, const DeviceTraits&, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  OCELLUS_TRY(stored.lay_out(sink, "stored rows", kLife, kPrefillPhase, 1, rows));
  OCELLUS_TRY(changes.lay_out(sink, "changes of rows", kLife, kPrefillPhase, 1, rows));
  return take_rows(sink, "rows by change", kLife, kPrefillPhase, 1, rows, &order);
}

Status Reuse::choose_rows(PromptChunk& chunk) {
  Engine& engine = conversation_->engine();
  const TextModel& text = engine.text();
  SessionCache &cache = conversation_->cache(), &images = linked_cache(*conversation_);
  Queue& queue = engine.queue();
  if (!engine.shape().reuse.blends() || chunk.linked_rows == 0) return {};
  const TraceRange range(engine.trace(), "choose rows");
  const ArenaScope scope(engine.arena());
  PrefillScratch scratch;
  scratch.extra.trace = engine.trace();
  OCELLUS_TRY(engine.take_scratch(&scratch));
  PrefillTimer timer(queue);
  PrefillPlan plan = plan_look(chunk, conversation_->state().next_position, cache, scratch, queue);
  const int32_t layer = std::min(kCheckedLayer, text.config.layer_count - 1);
  plan.most_layers = layer + 1;
  chunk.embed_text(text, queue);
  queue.join_transfers();
  fetch_rows(chunk);
  OCELLUS_TRY(engine.run_prefill(chunk.row_count, plan, scratch, &conversation_->stop()));
  const bool local = text.config.local.has(layer);
  list_stored(chunk, images, local, *blend_);
  queue.upload(blend_->stored, chunk.row_count);
  const StagedRows<float>& changes = blend_->changes;
  value_change({.rows = scratch.own_rows(local),
                .count = chunk.row_count,
                .slots = blend_->stored.device.data,
                .layer = text.config.cache_layer(layer),
                .changes = changes.device.data},
               queue);
  if (changes.host.data != changes.device.data)
    queue.copy(changes.host.data, changes.device.data, chunk.row_count * int64_t{sizeof(float)});
  OCELLUS_TRY(timer.finish(&conversation_->stats().prefill_ms));
  const int64_t count = choose_most_changed(chunk, engine.shape().reuse.blend_percent, *blend_);
  link_others(blend_->order.data, count, chunk, engine.shape().reuse.staged ? nullptr : &images);
  return {};
}

}  // namespace ocellus
