#include "runtime/prefill.h"

#include <algorithm>

#include "kernels/attend_rows.h"
#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "kernels/rmsnorm.h"
#include "kernels/rope.h"

namespace ocellus {
namespace {

/// What the parts of one layer share: the chunk, its rotation angles, and where the layer's keys and values go.
struct LayerPass {
  const TextConfig& config;
  const PrefillScratch& scratch;
  const SessionCache& cache;
  KvLayerRows rows;
  int32_t layer;
};

void attend_block(const LayerPass& pass, const TextLayer& w, int64_t first, DeviceView<float> hidden, Queue& q) {
  const TextConfig& c = pass.config;
  const PrefillScratch& s = pass.scratch;
  const int64_t count = hidden.rows;
  const DeviceView<float> normed(s.normed_or_mixed.data, count, c.width);
  const DeviceView<float> mixed(s.normed_or_mixed.data, count, c.query_width());
  const DeviceView<float> qkv = s.qkv.slice_rows(0, count);
  const DeviceView<float> query = qkv.slice_cols(0, c.query_width());
  const DeviceView<float> key = qkv.slice_cols(c.query_width(), c.kv_width());
  const DeviceView<float> value = qkv.slice_cols(c.query_width() + c.kv_width(), c.kv_width());
  const DeviceView<float> angles = s.angles.slice_rows(first, count);

  rmsnorm({.input = hidden, .weight = w.attention_norm, .epsilon = c.epsilon, .output = normed}, q);
  matmul({.input = normed,
          .count = 3,
          .weights = {w.query.weight, w.key.weight, w.value.weight},
          .biases = {w.query.bias, w.key.bias, w.value.bias},
          .outputs = {query, key, value},
          .scratch = s.matmul_scratch},
         q);
  rotate({.values = query, .head_dim = c.head_dim, .params = c.rope, .angles = angles}, q);
  rotate({.values = key, .head_dim = c.head_dim, .params = c.rope, .angles = angles}, q);
  round_kv({.keys = key, .values = value, .first = first, .out = pass.rows}, q);
  attend_rows({.query = query,
               .query_heads = c.query_heads,
               .rows = pass.rows,
               .first_row = first,
               .row_count = first + count,
               .runs = pass.cache.runs(),
               .run_count = pass.cache.run_count(),
               .layer = pass.layer,
               .causal = true,
               .output = mixed,
               .scratch = s.attend_scratch},
              q);
  matmul({.input = mixed,
          .weights = {w.attention_output.weight},
          .biases = {w.attention_output.bias},
          .outputs = {hidden},
          .accumulate = true,
          .scratch = s.matmul_scratch},
         q);
}

void run_mlp_block(const LayerPass& pass, const TextLayer& w, DeviceView<float> hidden, Queue& q) {
  const TextConfig& c = pass.config;
  const PrefillScratch& s = pass.scratch;
  const DeviceView<float> normed(s.normed_or_mixed.data, hidden.rows, c.width);
  const DeviceView<float> gate_up = s.gate_up.slice_rows(0, hidden.rows);
  const DeviceView<float> gate = gate_up.slice_cols(0, c.mlp_width);
  const DeviceView<float> up = gate_up.slice_cols(c.mlp_width, c.mlp_width);

  rmsnorm({.input = hidden, .weight = w.mlp_norm, .epsilon = c.epsilon, .output = normed}, q);
  matmul({.input = normed,
          .count = 2,
          .weights = {w.mlp_gate.weight, w.mlp_up.weight},
          .biases = {w.mlp_gate.bias, w.mlp_up.bias},
          .outputs = {gate, up},
          .scratch = s.matmul_scratch},
         q);
  gated_silu({.gate = gate, .up = up}, q);
  matmul({.input = gate,
          .weights = {w.mlp_down.weight},
          .biases = {w.mlp_down.bias},
          .outputs = {hidden},
          .accumulate = true,
          .scratch = s.matmul_scratch},
         q);
}

/// Copies the layer's full-precision keys and values into the cache slots reserved for the chunk.
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
      store_kv({.rows = pass.rows, .first = piece.first_row, .count = piece.row_count,
                .run = pass.cache.image_place(image_ordinal), .run_slot = image_slot, .layer = pass.layer}, q);
      image_slot += piece.row_count;
      continue;
    }
    for (int64_t done = 0; done < piece.row_count;) {
      int32_t slot = 0;
      const KvRun run = pass.cache.text_place(text_index, &slot);
      const int64_t count = std::min<int64_t>(piece.row_count - done, run.capacity - slot);
      store_kv({.rows = pass.rows, .first = piece.first_row + done, .count = count, .run = run, .run_slot = slot,
                .layer = pass.layer}, q);
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
  const int64_t widest_input = std::max({int64_t{c.width}, c.query_width(), int64_t{c.mlp_width}});
  constexpr Lifetime kLife = Lifetime::kScratch;
  constexpr Phase kPhase = Phase::kPrefill;
  OCELLUS_TRY(take_rows(sink, "prefill positions", kLife, kPhase, 1, max_rows, &positions));
  OCELLUS_TRY(take_rows(sink, "prefill angles", kLife, kPhase, max_rows, c.rope.rotated, &angles));
  OCELLUS_TRY(take_rows(sink, "prefill layer keys", kLife, kPhase, c.kv_heads * max_rows, c.head_dim, &keys));
  OCELLUS_TRY(take_rows(sink, "prefill layer values", kLife, kPhase, c.kv_heads * max_rows, c.head_dim, &values));
  OCELLUS_TRY(take_rows(sink, "prefill normed or mixed", kLife, kPhase, block,
                        std::max<int64_t>(c.width, c.query_width()), &normed_or_mixed));
  OCELLUS_TRY(take_rows(sink, "prefill qkv", kLife, kPhase, block, c.query_width() + 2 * c.kv_width(), &qkv));
  OCELLUS_TRY(take_rows(sink, "prefill gate and up", kLife, kPhase, block, 2 * int64_t{c.mlp_width}, &gate_up));
  OCELLUS_TRY(take_rows(sink, "prefill matmul", kLife, kPhase, 1,
                        matmul_scratch_bytes(block, widest_input, thread_count), &matmul_scratch));
  return take_rows(sink, "prefill attention", kLife, kPhase, 1, attend_rows_scratch_bytes(c.head_dim, thread_count),
                   &attend_scratch);
}

Status prefill_chunk(const TextModel& model, const PromptChunk& chunk, int64_t first_position, const SessionCache& cache,
                     const PrefillScratch& s, const StopSignal* stop, Queue& q) {
  const TextConfig& c = model.config;
  const KvLayerRows rows{s.keys.data, s.values.data, c.kv_heads, c.head_dim, s.keys.rows / c.kv_heads};
  for (int64_t t = 0; t < chunk.row_count; ++t) s.positions.data[t] = static_cast<int32_t>(first_position + t);
  rope_angles({.positions = s.positions.data, .count = chunk.row_count, .params = c.rope,
               .angles = s.angles.slice_rows(0, chunk.row_count)}, q);

  for (int32_t layer = 0; layer < c.layer_count; ++layer) {
    const TextLayer& w = model.layers[layer];
    const LayerPass pass{c, s, cache, rows, layer};
    // A block needs the keys and values of the rows before it only, so it can go through the whole layer at once.
    for (int64_t first = 0; first < chunk.row_count; first += kPrefillBlockRows) {
      if (q.stopped(stop)) return q.status();
      const int64_t count = std::min(kPrefillBlockRows, chunk.row_count - first);
      const DeviceView<float> hidden = chunk.hidden.slice_rows(first, count);
      attend_block(pass, w, first, hidden, q);
      run_mlp_block(pass, w, hidden, q);
    }
    store_layer(pass, chunk, q);
  }
  return q.status();
}

}  // namespace ocellus
