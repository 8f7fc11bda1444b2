#include "runtime/prefill.h"

#include <algorithm>

#include "kernels/attend_rows.h"
#include "kernels/rope.h"

namespace ocellus {
namespace {

/// One layer of a chunk: where the chunk's own keys and values are kept, and the cache before the chunk.
struct LayerPass {
  const TextConfig& config;
  const PrefillScratch& scratch;
  const SessionCache& cache;
  KvLayerRows rows;
  int32_t layer;
};

/// Takes chunk rows first.. through one layer.
void run_block(const LayerPass& pass, const TextLayer& w, int64_t first, DeviceView<float> hidden, Queue& q) {
  const PrefillScratch& s = pass.scratch;
  const LayerRows rows = s.layer.view(pass.config, hidden.rows);
  project_qkv(pass.config, w, hidden, s.angles.slice_rows(first, hidden.rows), rows, q);
  round_kv({.keys = rows.key, .values = rows.value, .first = first, .out = pass.rows}, q);
  attend_rows({.query = rows.query,
               .query_heads = pass.config.query_heads,
               .rows = pass.rows,
               .first_row = first,
               .row_count = first + hidden.rows,
               .runs = pass.cache.runs(),
               .run_count = pass.cache.run_count(),
               .layer = pass.layer,
               .causal = true,
               .output = rows.mixed,
               .scratch = s.attend_scratch},
              q);
  add_attention_output(w, rows, hidden, q);
  add_mlp(pass.config, w, rows, hidden, q);
}

/// Copies the layer's keys and values into the cache slots reserved for the chunk.
void store_layer(const LayerPass& pass, const PromptChunk& chunk, Queue& q) {
  int64_t text_index = pass.cache.text_slots();
  // An image that is cut into views has several pieces; they fill its slot one after the other.
  int32_t image_ordinal = -1;
  int64_t image_slot = 0;
  for (int64_t p = 0; p < chunk.piece_count; ++p) {
    const Piece& piece = chunk.pieces.data[p];
    if (piece.kind == RowKind::kImage) {
      if (piece.image_ordinal != image_ordinal) image_slot = 0;
      image_ordinal = piece.image_ordinal;
      store_kv({.rows = pass.rows,
                .first = piece.first_row,
                .count = piece.row_count,
                .run = pass.cache.image_place(image_ordinal),
                .run_slot = image_slot,
                .layer = pass.layer},
               q);
      image_slot += piece.row_count;
      continue;
    }
    for (int64_t done = 0; done < piece.row_count;) {
      int32_t slot = 0;
      const KvRun run = pass.cache.text_place(text_index, &slot);
      const int64_t count = std::min<int64_t>(piece.row_count - done, run.capacity - slot);
      store_kv({.rows = pass.rows,
                .first = piece.first_row + done,
                .count = count,
                .run = run,
                .run_slot = slot,
                .layer = pass.layer},
               q);
      done += count;
      text_index += count;
    }
  }
}

}  // namespace

template <>
struct TypeName<Piece> {
  static constexpr const char* value = "piece";
};

Status PromptChunk::lay_out(int64_t max_rows, int64_t width, RowSink& sink) {
  OCELLUS_TRY(take_rows(sink, "prompt rows", Lifetime::kSession, Phase::kNone, max_rows, width, &hidden));
  return take_rows(sink, "prompt pieces", Lifetime::kSession, Phase::kNone, 1, max_rows, &pieces);
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

void PromptChunk::rewind(const Mark& mark) {
  row_count = mark.row_count;
  piece_count = mark.piece_count;
  text_count = mark.text_count;
  if (piece_count > 0) pieces.data[piece_count - 1].row_count = mark.last_piece_rows;
}

Status PrefillScratch::lay_out(const TextConfig& c, int64_t max_rows, int thread_count, RowSink& sink) {
  const int64_t block = std::min(kPrefillBlockRows, max_rows);
  constexpr Lifetime kLife = Lifetime::kScratch;
  constexpr Phase kPhase = Phase::kPrefill;
  OCELLUS_TRY(take_rows(sink, "positions", kLife, kPhase, 1, max_rows, &positions));
  OCELLUS_TRY(take_rows(sink, "angles", kLife, kPhase, max_rows, c.rope.rotated, &angles));
  OCELLUS_TRY(take_rows(sink, "layer keys", kLife, kPhase, c.kv_heads * max_rows, c.head_dim, &keys));
  OCELLUS_TRY(take_rows(sink, "layer values", kLife, kPhase, c.kv_heads * max_rows, c.head_dim, &values));
  OCELLUS_TRY(layer.lay_out(c, block, thread_count, kPhase, sink));
  return take_rows(sink, "attention", kLife, kPhase, 1, attend_rows_scratch_bytes(c.head_dim, thread_count),
                   &attend_scratch);
}

Status prefill_chunk(const TextModel& model, const PromptChunk& chunk, int64_t first_position,
                     const SessionCache& cache, const PrefillScratch& s, const StopSignal* stop, Queue& q) {
  const TextConfig& c = model.config;
  const KvLayerRows rows{s.keys.data, s.values.data, c.kv_heads, c.head_dim, s.keys.rows / c.kv_heads};
  for (int64_t t = 0; t < chunk.row_count; ++t) s.positions.data[t] = static_cast<int32_t>(first_position + t);
  rope_angles({.positions = s.positions.data,
               .count = chunk.row_count,
               .params = c.rope,
               .angles = s.angles.slice_rows(0, chunk.row_count)},
              q);

  for (int32_t layer = 0; layer < c.layer_count; ++layer) {
    const TextLayer& w = model.layers[layer];
    const LayerPass pass{c, s, cache, rows, layer};
    // A block needs the keys and values of its own rows and those before it, so it can take the whole layer at once.
    for (int64_t first = 0; first < chunk.row_count; first += kPrefillBlockRows) {
      if (q.stopped(stop)) return q.status();
      const int64_t count = std::min(kPrefillBlockRows, chunk.row_count - first);
      run_block(pass, w, first, chunk.hidden.slice_rows(first, count), q);
    }
    store_layer(pass, chunk, q);
  }
  return q.status();
}

}  // namespace ocellus
