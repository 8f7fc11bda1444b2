#include "runtime/prefill.h"

#include <algorithm>

#include "kernels/attend_rows.h"
#include "kernels/gather_rows.h"
#include "kernels/rope.h"

namespace ocellus {
namespace {

constexpr int64_t kBlockRowsOnCpu = 128;

/// One layer of a chunk: where the chunk's own keys and values are kept, and the cache before the chunk.
struct LayerPass {
  const TextConfig& config;
  const PrefillScratch& scratch;
  const PrefillPlan& plan;
  KvLayerRows rows;
  int32_t layer;
};

/// Takes chunk rows first.. through one layer.
void run_block(const LayerPass& pass, const TextLayer& w, int64_t first, DeviceView<float> hidden, Queue& q) {
  const PrefillScratch& s = pass.scratch;
  const TextConfig& c = pass.config;
  const LayerRows rows = s.layer.view(c, hidden.rows);
  const DeviceView<float> angles = s.angles.slice_rows(first, hidden.rows);
  project_qkv(c, w, hidden, rows, q);
  rotate({.values = rows.query, .head_dim = c.head_dim, .params = c.rope, .angles = angles}, q);
  rotate({.values = rows.key, .head_dim = c.head_dim, .params = c.rope, .angles = angles}, q);
  round_kv({.keys = rows.key, .values = rows.value, .first = first, .out = pass.rows}, q);
  attend_rows({.query = rows.query,
               .query_heads = c.query_heads,
               .rows = pass.rows,
               .first_row = first,
               .row_count = first + hidden.rows,
               .runs = s.past.device.data,
               .run_count = static_cast<int32_t>(pass.plan.past_tiles),
               .layer = pass.layer,
               .causal = true,
               .output = rows.mixed,
               .scratch = s.attend_scratch},
              q);
  add_attention_output(w, rows, hidden, q);
  add_mlp(c, w, rows, hidden, q);
}

/// Where the rows of a piece go, one after the other.
class SlotCursor {
 public:
  SlotCursor(const SessionCache& cache, int32_t head_dim)
      : cache_(cache), head_dim_(head_dim), text_index_(cache.text_slots()) {}

  KvSlot next(const Piece& piece) {
    if (piece.kind == RowKind::kText) {
      int32_t slot = 0;
      const KvRun run = cache_.text_place(text_index_++, &slot);
      return run_slot(run, slot, head_dim_);
    }
    // An image that is cut into views has several pieces; they fill its slot one after the other.
    if (piece.image_ordinal != image_ordinal_) image_slot_ = 0;
    image_ordinal_ = piece.image_ordinal;
    return run_slot(cache_.image_place(image_ordinal_), image_slot_++, head_dim_);
  }

 private:
  const SessionCache& cache_;
  int32_t head_dim_;
  int64_t text_index_;
  int32_t image_ordinal_ = -1;
  int64_t image_slot_ = 0;
};

}  // namespace

template <>
struct TypeName<Piece> {
  static constexpr const char* value = "piece";
};

Status PromptChunk::lay_out(int64_t max_rows, int64_t width, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kSession;
  OCELLUS_TRY(take_rows(sink, "prompt rows", kLife, Phase::kNone, max_rows, width, &hidden));
  OCELLUS_TRY(token_ids.lay_out(sink, "prompt tokens", kLife, Phase::kNone, 1, max_rows));
  return take_rows(sink, "prompt pieces", kLife, Phase::kNone, 1, max_rows, &pieces);
}

void PromptChunk::add_piece(RowKind kind, int32_t image_ordinal, int64_t count) {
  Piece* last = piece_count > 0 ? &pieces.data[piece_count - 1] : nullptr;
  if (last != nullptr && last->kind == kind && last->image_ordinal == image_ordinal) {
    last->row_count += count;
  } else {
    pieces.data[piece_count++] = {kind, image_ordinal, row_count, count};
  }
  row_count += count;
  if (kind == RowKind::kText) text_count += count;
}

void PromptChunk::add_text(const int32_t* tokens, int64_t count) {
  std::copy(tokens, tokens + count, token_ids.host.data + row_count);
  add_piece(RowKind::kText, 0, count);
}

void PromptChunk::add_image_rows(int32_t image_ordinal, int64_t count) {
  std::fill_n(token_ids.host.data + row_count, count, kSkippedRow);
  add_piece(RowKind::kImage, image_ordinal, count);
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
  if (piece_count > 0) pieces.data[piece_count - 1].row_count = mark.last_piece_rows;
}

int64_t prefill_block_rows(const DeviceTraits& device, int64_t max_rows) {
  return device.is_cuda() ? max_rows : std::min(kBlockRowsOnCpu, max_rows);
}

Status PrefillScratch::lay_out(const TextConfig& c, int64_t max_rows, int64_t past_tiles, const DeviceTraits& device,
                               RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  constexpr Phase kPhase = Phase::kPrefill;
  OCELLUS_TRY(positions.lay_out(sink, "positions", kLife, kPhase, 1, max_rows));
  OCELLUS_TRY(slots.lay_out(sink, "slots of rows", kLife, kPhase, 1, max_rows));
  OCELLUS_TRY(past.lay_out(sink, "past runs", kLife, kPhase, 1, past_tiles));
  OCELLUS_TRY(take_rows(sink, "angles", kLife, kPhase, max_rows, c.rope.rotated, &angles));
  OCELLUS_TRY(take_rows(sink, "layer keys", kLife, kPhase, c.kv_heads * max_rows, c.head_dim, &keys));
  OCELLUS_TRY(take_rows(sink, "layer values", kLife, kPhase, c.kv_heads * max_rows, c.head_dim, &values));
  OCELLUS_TRY(layer.lay_out(c, prefill_block_rows(device, max_rows), 0, device, kPhase, sink));
  return take_rows(sink, "attention", kLife, kPhase, 1, attend_rows_scratch_bytes(c.head_dim, device), &attend_scratch);
}

PrefillPlan plan_prefill(const PromptChunk& chunk, int64_t first_position, const SessionCache& cache, int32_t head_dim,
                         const PrefillScratch& s, const DeviceTraits& device) {
  SlotCursor cursor(cache, head_dim);
  int64_t row = 0;
  for (int64_t p = 0; p < chunk.piece_count; ++p)
    for (int64_t i = 0; i < chunk.pieces.data[p].row_count; ++i, ++row) {
      s.slots.host.data[row] = cursor.next(chunk.pieces.data[p]);
      s.positions.host.data[row] = static_cast<int32_t>(first_position + row);
    }
  return {cache.list_live(tile_slots(device), s.past.host.data)};
}

void enqueue_layers(const TextModel& model, const LayerRange& range, DeviceView<float> hidden, const PrefillPlan& plan,
                    const PrefillScratch& s, const StopSignal* stop, Queue& q) {
  const TextConfig& c = model.config;
  const int64_t row_count = hidden.rows;
  const int64_t block = prefill_block_rows(q.traits(), row_count);
  const KvLayerRows rows =
      KvLayerRows::head_major(s.keys.data, s.values.data, c.kv_heads, c.head_dim, s.keys.rows / c.kv_heads);
  if (range.first == 0)
    rope_angles({.positions = s.positions.device.data,
                 .count = row_count,
                 .params = c.rope,
                 .angles = s.angles.slice_rows(0, row_count)},
                q);
  for (int32_t layer = range.first; layer < range.end; ++layer) {
    const TextLayer& w = model.layers[layer];
    const LayerPass pass{c, s, plan, rows, layer};
    // A block needs the keys and values of its own rows and those before it, so it can take the whole layer at once.
    for (int64_t first = 0; first < row_count; first += block) {
      if (q.stopped(stop)) return;
      run_block(pass, w, first, hidden.slice_rows(first, std::min(block, row_count - first)), q);
    }
    store_kv({.rows = rows, .count = row_count, .slots = s.slots.device.data, .layer = layer}, q);
  }
}

Status prefill_rows(const TextModel& model, DeviceView<float> hidden, const PrefillPlan& plan, const PrefillScratch& s,
                    const StopSignal* stop, Queue& q) {
  enqueue_layers(model, {0, model.config.layer_count}, hidden, plan, s, stop, q);
  return q.status();
}

}  // namespace ocellus
