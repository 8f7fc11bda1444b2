#include "runtime/prefill.h"

#include <algorithm>

#include "kernels/attend_rows.h"
#include "kernels/expand_kv.h"
#include "kernels/gather_rows.h"
#include "kernels/note_slots.h"
#include "kernels/rope.h"
#include "runtime/eviction_rule.h"
#include "runtime/kv_links.h"

namespace ocellus {
namespace {

KvLayerRows layer_rows(const TextConfig& c, const PrefillScratch& s) {
  return KvLayerRows::head_major(s.keys.data, s.values.data, c.kv_heads, c.head_dim, s.keys.rows / c.kv_heads);
}

/// One layer of a chunk: where the chunk's own keys and values are kept, and the cache before the chunk.
struct LayerPass {
  const TextConfig& config;
  const PrefillScratch& scratch;
  const PrefillPlan& plan;
  KvLayerRows rows;
  int32_t layer;
};

/// Blocks write over each other's queries, so those that the rule reads are kept.
void keep_observed_queries(const LayerPass& pass, int64_t first, const ActivationView& query, int64_t row_count,
                           Queue& q) {
  const ActivationView& kept = pass.scratch.compress.last_queries;
  const int64_t observed_first = row_count - pass.plan.compress.observed;
  for (int64_t t = std::max(first, observed_first); t < first + query.rows; ++t)
    q.copy(kept.slice_rows(t - observed_first, 1).data, query.slice_rows(t - first, 1).data,
           query.cols * query.value_bytes());
}

/// The queries that the rule reads, wherever a layer has left them.
ActivationView observed_queries(const TextConfig& c, const CompressPlan& plan, const PrefillScratch& s) {
  const CompressScratch& kept = s.compress;
  const int64_t rows = plan.facts.rows;
  if (kept.last_queries.data != nullptr) return kept.last_queries.slice_rows(0, plan.observed);
  const ActivationView all = kept.all_queries.data != nullptr ? kept.all_queries : s.layer.view(c, rows).query;
  return all.slice_rows(rows - plan.observed, plan.observed);
}

/// Takes chunk rows first.. through one layer.
void run_block(const LayerPass& pass, const TextLayer& w, int64_t first, DeviceView<float> hidden, Queue& q) {
  const PrefillScratch& s = pass.scratch;
  const TextConfig& c = pass.config;
  LayerRows rows = s.layer.view(c, hidden.rows);
  if (s.compress.all_queries.data != nullptr) rows.query = s.compress.all_queries.slice_rows(first, hidden.rows);
  const DeviceView<float> angles = s.angles.slice_rows(first, hidden.rows);
  project_qkv(c, w, hidden, rows, q);
  rotate({.values = rows.query, .head_dim = c.head_dim, .params = c.rope, .angles = angles}, q);
  rotate({.values = rows.key, .head_dim = c.head_dim, .params = c.rope, .angles = angles}, q);
  round_kv({.keys = rows.key, .values = rows.value, .first = first, .out = pass.rows}, q);
  if (s.compress.last_queries.data != nullptr && pass.plan.compress.evicts)
    keep_observed_queries(pass, first, rows.query, pass.plan.compress.facts.rows, q);
  attend_rows({.query = rows.query,
               .query_heads = c.query_heads,
               .rows = pass.rows,
               .first_row = first,
               .row_count = first + hidden.rows,
               .runs = s.past.device.data,
               .run_count = static_cast<int32_t>(pass.plan.past_tiles),
               .layer = s.kv.layer(pass.layer),
               .causal = true,
               .rope = c.rope,
               .calibration = s.compress.policy.calibration,
               .calibration_scratch = s.expand.calibration.slice_rows(0, hidden.rows),
               .output = rows.mixed,
               .scratch = rows.matmul_scratch},
              q);
  add_attention_output(w, rows, hidden, q);
  add_mlp(c, w, rows, hidden, q);
}

/// Where the rows of a piece go, one after the other.
class SlotCursor {
 public:
  /// `text_goes`: nothing but images is stored.
  SlotCursor(SessionCache& cache, const CachePolicy& policy, int32_t head_dim, bool text_goes)
      : cache_(cache), policy_(policy), head_dim_(head_dim), text_goes_(text_goes), text_index_(cache.text_slots()) {}

  KvSlot next(const Piece& piece, int64_t position) {
    if (piece.kind != RowKind::kImage) {
      if (text_goes_) return {};
      cache_.note_text_position(text_index_, position);
      int32_t slot = 0;
      const KvRun run = cache_.text_place(text_index_++, &slot);
      return run_slot(run, slot, head_dim_);
    }
    // An image that is cut into views has several pieces; they fill its blocks one after the other.
    if (piece.image_ordinal != image_ordinal_) {
      image_slot_ = 0;
      cache_.note_image_position(piece.image_ordinal, position);
    }
    image_ordinal_ = piece.image_ordinal;
    const int64_t slot = image_slot_++;
    if (policy_.compresses()) return {};
    return run_slot(cache_.image_block(image_ordinal_, 0), slot, head_dim_);
  }

 private:
  SessionCache& cache_;
  const CachePolicy& policy_;
  int32_t head_dim_;
  bool text_goes_;
  int64_t text_index_;
  int32_t image_ordinal_ = -1;
  int64_t image_slot_ = 0;
};

}  // namespace

template <>
struct TypeName<Piece> {
  static constexpr const char* value = "piece";
};

Status PromptChunk::lay_out(int64_t max_rows, int64_t width, int64_t max_links, const PromptChunk* hidden_of,
                            RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kSession;
  const bool shares = hidden_of != nullptr;
  if (shares)
    hidden = hidden_of->hidden.slice_rows(0, max_rows);
  else
    OCELLUS_TRY(take_rows(sink, "prompt rows", kLife, Phase::kNone, max_rows, width, &hidden));
  OCELLUS_TRY(token_ids.lay_out(sink, shares ? "image tokens" : "prompt tokens", kLife, Phase::kNone, 1, max_rows));
  OCELLUS_TRY(take_rows(sink, shares ? "image pieces" : "prompt pieces", kLife, Phase::kNone, 1, max_rows, &pieces));
  if (max_links == 0) return {};
  return take_rows(sink, "links to images", kLife, Phase::kNone, 1, max_links, &links);
}

void PromptChunk::add_piece(RowKind kind, int32_t image_ordinal, int64_t count) {
  Piece* last = piece_count > 0 ? &pieces.data[piece_count - 1] : nullptr;
  if (last != nullptr && last->kind == kind && last->image_ordinal == image_ordinal &&
      last->linked_before == linked_slots) {
    last->row_count += count;
  } else {
    pieces.data[piece_count++] = {kind, image_ordinal, row_count, count, linked_slots, linked_rows};
  }
  row_count += count;
  if (kind != RowKind::kImage) text_count += count;
}

void PromptChunk::add_text(const int32_t* tokens, int64_t count) {
  std::copy(tokens, tokens + count, token_ids.host.data + row_count);
  add_piece(RowKind::kText, 0, count);
}

void PromptChunk::add_image_rows(int32_t image_ordinal, int64_t count) {
  std::fill_n(token_ids.host.data + row_count, count, kSkippedRow);
  add_piece(RowKind::kImage, image_ordinal, count);
}

void PromptChunk::add_linked_rows(int64_t count) {
  if (count == 0) return;
  std::fill_n(token_ids.host.data + row_count, count, kSkippedRow);
  add_piece(RowKind::kLinked, 0, count);
  linked_rows += count;
}

void PromptChunk::add_link(LinkedRun link) {
  link.visible_from = static_cast<int32_t>(row_count);
  links.data[link_count++] = link;
  linked_slots += link.slots;
}

void PromptChunk::embed_text(const WeightView& embedding, Queue& q) const {
  q.upload(token_ids, row_count);
  gather_rows(
      {.ids = token_ids.device.data, .count = row_count, .table = embedding, .output = hidden.slice_rows(0, row_count)},
      q);
}

void PromptChunk::rewind(const Mark& mark) {
  row_count = mark.row_count;
  piece_count = mark.piece_count;
  text_count = mark.text_count;
  link_count = mark.link_count;
  linked_slots = mark.linked_slots;
  linked_rows = mark.linked_rows;
  if (piece_count > 0) pieces.data[piece_count - 1].row_count = mark.last_piece_rows;
}

Status PrefillScratch::lay_out(const TextConfig& c, const PrefillLimits& limits, const DeviceTraits& device,
                               RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  constexpr Phase kPhase = Phase::kPrefill;
  const int64_t max_rows = limits.compress.rows;
  kv = limits.kv;
  OCELLUS_TRY(positions.lay_out(sink, "positions", kLife, kPhase, 1, max_rows));
  OCELLUS_TRY(slots.lay_out(sink, "slots of rows", kLife, kPhase, 1, max_rows));
  OCELLUS_TRY(past.lay_out(sink, "past runs", kLife, kPhase, 1, limits.past_tiles));
  OCELLUS_TRY(take_rows(sink, "angles", kLife, kPhase, max_rows, c.rope.rotated, &angles));
  OCELLUS_TRY(take_rows(sink, "layer keys", kLife, kPhase, c.kv_heads * max_rows, c.head_dim, &keys));
  OCELLUS_TRY(take_rows(sink, "layer values", kLife, kPhase, c.kv_heads * max_rows, c.head_dim, &values));
  OCELLUS_TRY(layer.lay_out(c, device.block_rows(max_rows), {.op_bytes = attend_rows_scratch_bytes(c.head_dim, device)},
                            device, kPhase, sink));
  OCELLUS_TRY(compress.lay_out(c, limits.compress, device, sink));
  if (compress.policy.evicts_answers()) {
    const int64_t pages = blocks_of(max_rows + kPageSlots - 1, kPageSlots);
    OCELLUS_TRY(noted.runs.lay_out(sink, "runs of text", kLife, kPhase, 1, pages));
    OCELLUS_TRY(noted.rows.lay_out(sink, "rows of text", kLife, kPhase, 1, max_rows));
  }
  if (!device.is_cuda() || limits.expanded_tiles == 0) return {};
  const int64_t rows = c.kv_heads * limits.expanded_tiles * kPackedTileSlots;
  OCELLUS_TRY(expand.runs.lay_out(sink, "packed runs", kLife, kPhase, 1, limits.expanded_tiles));
  OCELLUS_TRY(take_rows(sink, "packed keys as f16", kLife, kPhase, rows, c.head_dim, &expand.keys));
  OCELLUS_TRY(take_rows(sink, "packed values as f16", kLife, kPhase, rows, c.head_dim, &expand.values));
  if (!limits.compress.policy.calibration.on) return {};
  return take_rows(sink, "calibration", kLife, kPhase, device.block_rows(max_rows), 2 * int64_t{c.query_heads},
                   &expand.calibration);
}

namespace {

/// Tiles of an f16 copy of run `index` of the list of packed runs.
int64_t list_copy(const KvRun& run, int64_t index, const ExpandScratch& e, KvRun* out) {
  const int64_t dim = e.keys.cols;
  KvRun copy = run;
  copy.data = reinterpret_cast<std::byte*>(e.keys.data + index * kPackedTileSlots * dim);
  copy.layer_stride = 0;
  copy.head_stride = 2 * dim * (e.runs.host.cols * kPackedTileSlots);
  copy.value_offset =
      reinterpret_cast<const std::byte*>(e.values.data) - reinterpret_cast<const std::byte*>(e.keys.data);
  copy.capacity = kPackedTileSlots;
  copy.counted_before += run.first;
  copy.first = 0;
  copy.position_shift = 0;
  copy.packed = false;
  int64_t count = 0;
  for (int32_t slot = 0; slot < run.slots; slot += kTileSlots)
    out[count++] = slice_run(copy, slot, std::min(kTileSlots, run.slots - slot), dim);
  return count;
}

/// The cache before the chunk, and what is linked into it, as attention reads it. On CUDA that is f16 tiles: runs that
/// are packed or shifted are listed to be copied, and their copies in their place.
void plan_past(const PromptChunk& chunk, int64_t first_position, SessionCache& cache, const PrefillScratch& s,
               const DeviceTraits& device, PrefillPlan* plan) {
  KvRun* const past = s.past.host.data;
  const auto list = [&](const KvRun& run) {
    if (!device.is_cuda() || (!run.packed && run.position_shift == 0)) {
      past[plan->past_tiles++] = run;
      return;
    }
    s.expand.runs.host.data[plan->expanded_tiles] = run;
    plan->past_tiles += list_copy(run, plan->expanded_tiles++, s.expand, past + plan->past_tiles);
  };
  const TileLimits limits = TileLimits::of(device);
  cache.move_sinks(first_position);
  cache.visit_live(limits, list);
  for (int64_t i = 0; i < chunk.link_count; ++i) visit_linked(cache, chunk.links.data[i], limits, list);
}

/// Enters the chunk's text into the ledger, in every layer: it goes to the pages behind the live text.
void note_text(const PromptChunk& chunk, int64_t first_position, const SessionCache& cache, const PrefillScratch& s,
               Queue& queue) {
  int32_t count = 0, run_count = 0;
  for (int64_t p = 0; p < chunk.piece_count; ++p) {
    const Piece& piece = chunk.pieces.data[p];
    for (int64_t i = 0; piece.kind != RowKind::kImage && i < piece.row_count; ++i)
      s.noted.rows.host.data[count++] = static_cast<int32_t>(piece.first_row + i);
  }
  const KvShape& shape = cache.shape();
  for (int32_t done = 0; done < count;) {
    int32_t slot = 0;
    const KvRun page = cache.text_place(cache.text_slots() + done, &slot);
    KvRun run = slice_run(page, slot, std::min(kPageSlots - slot, count - done), shape.head_dim);
    run.counted_before = done - run.first;
    s.noted.runs.host.data[run_count++] = run;
    done += run.slots;
  }
  queue.upload(s.noted.rows, count);
  queue.upload(s.noted.runs, run_count);
  note_slots({.ledger = cache.ledger(),
              .runs = s.noted.runs.device.data,
              .run_count = run_count,
              .indices = s.noted.rows.device.data,
              .first_position = static_cast<int32_t>(first_position),
              .layer_count = shape.layer_count,
              .kv_heads = shape.kv_heads},
             queue);
}

/// Where the rows stand and go. `row_slot` is asked for the slots of rows that compete.
template <class RowSlot>
void place_rows(const PromptChunk& chunk, int64_t first_position, bool all_compete, RowSlot row_slot,
                SlotCursor& cursor, const PrefillScratch& s) {
  int64_t row = 0;
  for (int64_t p = 0; p < chunk.piece_count; ++p) {
    const Piece& piece = chunk.pieces.data[p];
    for (int64_t i = 0; i < piece.row_count; ++i, ++row) {
      const int64_t position = first_position + piece.linked_before + row;
      s.slots.host.data[row] = all_compete ? row_slot(row) : cursor.next(piece, position);
      s.positions.host.data[row] = static_cast<int32_t>(position);
    }
  }
}

}  // namespace

PrefillPlan plan_prefill(const PromptChunk& chunk, int64_t first_position, SessionCache& cache, int32_t head_dim,
                         const PrefillScratch& s, Queue& queue) {
  PrefillPlan plan;
  plan.compress = plan_compression(chunk, first_position, cache, s.compress, queue);
  const bool all_compete = plan.compress.evicts && !plan.compress.one_image;
  const auto competing_slot = [&](int64_t row) { return plan.compress.is_late ? cache.evicted_slot(row) : KvSlot(); };
  SlotCursor cursor(cache, s.compress.policy, head_dim, false);
  place_rows(chunk, first_position, all_compete, competing_slot, cursor, s);
  if (cache.ledger().kept() && !all_compete && chunk.text_count > 0) note_text(chunk, first_position, cache, s, queue);
  plan_past(chunk, first_position, cache, s, queue.traits(), &plan);
  if (plan.expanded_tiles > 0) queue.upload(s.expand.runs, plan.expanded_tiles);
  return plan;
}

PrefillPlan plan_prefill_alone(const PromptChunk& chunk, SessionCache& cache, int32_t head_dim, const PrefillScratch& s,
                               Queue& queue) {
  PrefillPlan plan;
  plan.compress = plan_compression(chunk, 0, cache, s.compress, queue);
  SlotCursor cursor(cache, s.compress.policy, head_dim, true);
  place_rows(
      chunk, 0, false, [](int64_t) { return KvSlot(); }, cursor, s);
  return plan;
}

void enqueue_layer(const TextModel& model, int32_t layer, DeviceView<float> hidden, const PrefillPlan& plan,
                   const PrefillScratch& s, const StopSignal* stop, Queue& q) {
  const TextConfig& c = model.config;
  const int64_t row_count = hidden.rows;
  const int64_t block = q.traits().block_rows(row_count);
  if (layer == 0)
    rope_angles({.positions = s.positions.device.data,
                 .count = row_count,
                 .params = c.rope,
                 .angles = s.angles.slice_rows(0, row_count)},
                q);
  const LayerPass pass{c, s, plan, layer_rows(c, s), layer};
  // A block needs the keys and values of its own rows and those before it, so it can take the whole layer at once.
  for (int64_t first = 0; first < row_count; first += block) {
    if (q.stopped(stop)) return;
    run_block(pass, model.layers[layer], first, hidden.slice_rows(first, std::min(block, row_count - first)), q);
  }
  store_kv({.rows = pass.rows, .count = row_count, .slots = s.slots.device.data, .layer = layer}, q);
}

void expand_past(const TextModel& model, int32_t layer, const PrefillPlan& plan, const PrefillScratch& s, Queue& q) {
  if (plan.expanded_tiles == 0) return;
  expand_kv({.runs = s.expand.runs.device.data,
             .run_count = static_cast<int32_t>(plan.expanded_tiles),
             .layer = s.kv.layer(layer),
             .rope = model.config.rope,
             .out = s.expand.rows(model.config)},
            q);
}

void compress_rows(const TextModel& model, int32_t layer, const PrefillPlan& plan, const PrefillScratch& s, Queue& q) {
  if (!plan.compress.active) return;
  const TextConfig& c = model.config;
  const LayerToCompress compressed{.config = c,
                                   .plan = plan.compress,
                                   .scratch = s.compress,
                                   .rows = layer_rows(c, s),
                                   .queries = observed_queries(c, plan.compress, s),
                                   .past = s.past.device.data,
                                   .past_count = static_cast<int32_t>(plan.past_tiles),
                                   .layer = s.kv.layer(layer),
                                   .angles = s.angles};
  compress_layer(compressed, q);
  if (plan.compress.is_late && layer + 1 == c.layer_count) compress_all_layers(compressed, q);
}

Status prefill_rows(const TextModel& model, DeviceView<float> hidden, const PrefillPlan& plan, const PrefillScratch& s,
                    const StopSignal* stop, Queue& q) {
  for (int32_t layer = 0; layer < model.config.layer_count && q.ok(); ++layer) {
    expand_past(model, layer, plan, s, q);
    enqueue_layer(model, layer, hidden, plan, s, stop, q);
    compress_rows(model, layer, plan, s, q);
  }
  return q.status();
}

}  // namespace ocellus
