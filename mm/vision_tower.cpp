#include "mm/vision_tower.h"

#include <algorithm>

#include "kernels/attend_rows.h"
#include "kernels/layernorm.h"
#include "kernels/matmul.h"
#include "kernels/patches.h"

namespace ocellus {
namespace {

/// Rows that go through a part of the tower together. A GPU takes all at once. So does the CPU but for the MLP, whose
/// rows are the widest: fewer and larger products let its threads wait less for each other (4 % of the time). Lean
/// devices take small blocks throughout.
struct BlockRows {
  BlockRows(const VisionConfig& c, int64_t views, const DeviceTraits& device)
      : mlp(device.block_rows(views * c.patch_count())), others(device.lean ? mlp : views * c.patch_count()) {}
  int64_t mlp, others;
};

/// What the layers of one call share.
struct TowerPass {
  const VisionModel& model;
  const VisionScratch& scratch;
  int64_t views;
  DeviceView<float> hidden;  // [views * P, D]
  BlockRows blocks;

  /// Calls visit(first, count) for all rows in blocks of so many.
  template <class Visit>
  void for_each_block(int64_t block, Visit visit) const {
    for (int64_t first = 0; first < hidden.rows; first += block) visit(first, std::min(block, hidden.rows - first));
  }
  ActivationView normed(int64_t rows) const { return scratch.normed_or_mixed.slice_rows(0, rows); }
  ActivationView wide(int64_t rows, int64_t cols) const {
    return {scratch.wide.data, rows, cols, cols, scratch.wide.type};
  }
};

TowerPass tower_pass(const VisionModel& m, int64_t views, const VisionScratch& s, const Queue& q) {
  const DeviceView<float> hidden = s.hidden.slice_rows(0, views * m.config.patch_count());
  return {m, s, views, hidden, BlockRows(m.config, views, q.traits())};
}

void embed_patches(const TowerPass& pass, DeviceView<const float> pixels, int64_t first, int64_t count, Queue& q) {
  const VisionModel& m = pass.model;
  const VisionConfig& c = m.config;
  const ActivationView patches = pass.wide(count, c.patch_values());
  const DeviceView<float> hidden = pass.hidden.slice_rows(first, count);
  cut_patches({.pixels = pixels, .side = c.image_size, .patch = c.patch_size, .first = first, .output = patches}, q);
  matmul({.input = patches,
          .weights = {m.patch_embedding.weight},
          .biases = {m.patch_embedding.bias},
          .outputs = {hidden},
          .scratch = pass.scratch.op_scratch},
         q);
  // A block takes its own positions; several views take all, again and again.
  const DeviceView<const float> positions(m.positions, c.patch_count(), c.width);
  add_rows({.values = hidden, .addend = positions.slice_rows(first, std::min<int64_t>(count, c.patch_count()))}, q);
}

void normalise(const TowerPass& pass, const VisionLayer& w, int64_t first, int64_t count, Queue& q) {
  layernorm({.input = pass.hidden.slice_rows(first, count),
             .weight = w.attention_norm_weight,
             .bias = w.attention_norm_bias,
             .epsilon = pass.model.config.epsilon,
             .output = pass.normed(count)},
            q);
}

void attend_rows_of(const TowerPass& pass, ActivationView query, const KvLayerRows& rows, Queue& q) {
  attend_rows({.query = query,
               .query_heads = pass.model.config.heads,
               .rows = rows,
               .row_count = pass.model.config.patch_count(),
               .causal = false,
               .sequences = pass.views,
               .output = pass.normed(query.rows),
               .scratch = pass.scratch.op_scratch},
              q);
}

void add_attention_output(const TowerPass& pass, const VisionLayer& w, int64_t first, int64_t count, Queue& q) {
  matmul({.input = pass.normed(count),
          .weights = {w.attention_output.weight},
          .biases = {w.attention_output.bias},
          .outputs = {pass.hidden.slice_rows(first, count)},
          .accumulate = true,
          .scratch = pass.scratch.op_scratch},
         q);
}

/// Keys and values of all views as attention reads them: f16 rows as they are, f32 rows rounded and laid out by head.
KvLayerRows key_value_rows(const TowerPass& pass, ActivationView key, ActivationView value, Queue& q) {
  const VisionConfig& c = pass.model.config;
  const VisionScratch& s = pass.scratch;
  if (key.type == ActivationType::kF16) {
    const int64_t sequence = int64_t{c.patch_count()} * key.stride;
    return {key.half_row(0), value.half_row(0), c.heads,      c.head_dim(),
            c.patch_count(), key.stride,        c.head_dim(), sequence};
  }
  const KvLayerRows rows = KvLayerRows::head_major(s.keys.data, s.values.data, c.heads, c.head_dim(), c.patch_count());
  round_kv({.keys = key, .values = value, .out = rows}, q);
  return rows;
}

void attend_at_once(const TowerPass& pass, const VisionLayer& w, Queue& q) {
  const VisionConfig& c = pass.model.config;
  const int64_t rows = pass.hidden.rows;
  const ActivationView qkv = pass.wide(rows, 3 * int64_t{c.width});
  const ActivationView query = qkv.slice_cols(0, c.width), key = qkv.slice_cols(c.width, c.width),
                       value = qkv.slice_cols(2 * int64_t{c.width}, c.width);
  normalise(pass, w, 0, rows, q);
  matmul({.input = pass.normed(rows),
          .count = 3,
          .weights = {w.query.weight, w.key.weight, w.value.weight},
          .biases = {w.query.bias, w.key.bias, w.value.bias},
          .outputs = {query, key, value},
          .scratch = pass.scratch.op_scratch},
         q);
  attend_rows_of(pass, query, key_value_rows(pass, key, value, q), q);
  add_attention_output(pass, w, 0, rows, q);
}

/// One view, in blocks: the keys and values of all, then for each block its queries. For these its rows are normalised
/// again, which costs little; by then only its own rows change.
void attend_in_blocks(const TowerPass& pass, const VisionLayer& w, Queue& q) {
  const VisionConfig& c = pass.model.config;
  const VisionScratch& s = pass.scratch;
  const KvLayerRows rows = KvLayerRows::head_major(s.keys.data, s.values.data, c.heads, c.head_dim(), c.patch_count());
  pass.for_each_block(pass.blocks.others, [&](int64_t first, int64_t count) {
    const ActivationView both = pass.wide(count, 2 * int64_t{c.width});
    const ActivationView key = both.slice_cols(0, c.width), value = both.slice_cols(c.width, c.width);
    normalise(pass, w, first, count, q);
    matmul({.input = pass.normed(count),
            .count = 2,
            .weights = {w.key.weight, w.value.weight},
            .biases = {w.key.bias, w.value.bias},
            .outputs = {key, value},
            .scratch = s.op_scratch},
           q);
    round_kv({.keys = key, .values = value, .first = first, .out = rows}, q);
  });
  pass.for_each_block(pass.blocks.others, [&](int64_t first, int64_t count) {
    const ActivationView query = pass.wide(count, c.width);
    normalise(pass, w, first, count, q);
    matmul({.input = pass.normed(count),
            .weights = {w.query.weight},
            .biases = {w.query.bias},
            .outputs = {query},
            .scratch = s.op_scratch},
           q);
    attend_rows_of(pass, query, rows, q);
    add_attention_output(pass, w, first, count, q);
  });
}

void run_mlp(const TowerPass& pass, const VisionLayer& w, int64_t first, int64_t count, Queue& q) {
  const VisionConfig& c = pass.model.config;
  const DeviceView<float> hidden = pass.hidden.slice_rows(first, count);
  const ActivationView wide = pass.wide(count, c.mlp_width);
  layernorm({.input = hidden,
             .weight = w.mlp_norm_weight,
             .bias = w.mlp_norm_bias,
             .epsilon = c.epsilon,
             .output = pass.normed(count)},
            q);
  matmul({.input = pass.normed(count),
          .weights = {w.mlp_up.weight},
          .biases = {w.mlp_up.bias},
          .outputs = {wide},
          .activation = c.activation,
          .scratch = pass.scratch.op_scratch},
         q);
  matmul({.input = wide,
          .weights = {w.mlp_down.weight},
          .biases = {w.mlp_down.bias},
          .outputs = {hidden},
          .accumulate = true,
          .scratch = pass.scratch.op_scratch},
         q);
}

int64_t matmul_bytes(const VisionConfig& c, int64_t views, const DeviceTraits& device) {
  const BlockRows blocks(c, views, device);
  const int64_t tokens = device.block_rows(views * c.tokens_per_view());
  return std::max({matmul_scratch_bytes(blocks.others, std::max(c.patch_values(), c.width), c.width, device),
                   matmul_scratch_bytes(blocks.mlp, c.width, c.mlp_width, device),
                   matmul_scratch_bytes(blocks.mlp, c.mlp_width, c.width, device),
                   matmul_scratch_bytes(tokens, c.joined_width(), c.output_width, device)});
}

/// Pieces of a row of memory, one behind the other. Without memory they are counted only.
struct PieceCursor {
  std::byte* memory;
  int64_t bytes = 0;

  std::byte* take(int64_t count) {
    std::byte* const piece = memory == nullptr ? nullptr : memory + bytes;
    bytes += aligned_bytes(count);
    return piece;
  }
  template <class T>
  DeviceView<T> rows(int64_t count, int64_t cols) {
    return {reinterpret_cast<T*>(take(count * cols * static_cast<int64_t>(sizeof(T)))), count, cols};
  }
  ActivationView activations(ActivationType type, int64_t count, int64_t cols) {
    if (type == ActivationType::kF16) return rows<Half>(count, cols);
    return rows<float>(count, cols);
  }
};

}  // namespace

/// Cuts the row that embedding, layers and projector take turns with; returns how long it must be.
int64_t VisionScratch::cut_turns(const VisionConfig& c, int64_t views, const DeviceTraits& device, std::byte* memory) {
  const ActivationType type = device.activations();
  const int64_t tokens = views * c.tokens_per_view();
  PieceCursor embedding{memory}, layers{memory}, projector{memory};
  if (device.in_blocks()) {
    pixels = embedding.rows<float>(3 * int64_t{c.image_size}, c.image_size);
    keys = layers.rows<Half>(c.patch_count(), c.width);
    values = layers.rows<Half>(c.patch_count(), c.width);
  }
  normed_or_mixed = layers.activations(type, BlockRows(c, views, device).others, c.width);
  joined = projector.activations(type, tokens, c.joined_width());
  if (device.is_cuda()) projected = projector.rows<float>(tokens, c.output_width);
  return std::max({embedding.bytes, layers.bytes, projector.bytes});
}

Status VisionScratch::take_turns(const VisionConfig& c, int64_t views, const DeviceTraits& device, Phase phase,
                                 RowSink& sink) {
  DeviceView<std::byte> turns;
  OCELLUS_TRY(take_rows(sink, device.in_blocks() ? "vision pixels or layer" : "vision layer", Lifetime::kScratch, phase,
                        1, cut_turns(c, views, device, nullptr), &turns));
  cut_turns(c, views, device, turns.data);
  return {};
}

Status VisionScratch::lay_out_pixels(const VisionConfig& c, int64_t views, const DeviceTraits& device, Phase phase,
                                     RowSink& sink) {
  return device.in_blocks() ? take_turns(c, views, device, phase, sink) : Status();
}

Status VisionScratch::lay_out(const VisionConfig& c, int64_t views, const DeviceTraits& device, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  constexpr Phase kPhase = Phase::kImage;
  const BlockRows blocks(c, views, device);
  const int64_t products = (device.lean ? 2 : 3) * int64_t{c.width};
  const int64_t wide_values =
      std::max(blocks.others * std::max<int64_t>(c.patch_values(), products), blocks.mlp * c.mlp_width);
  const int64_t op_bytes = std::max(matmul_bytes(c, views, device), attend_rows_scratch_bytes(c.head_dim(), device));
  OCELLUS_TRY(take_turns(c, views, device, kPhase, sink));
  OCELLUS_TRY(take_rows(sink, "vision hidden", kLife, kPhase, views * c.patch_count(), c.width, &hidden));
  OCELLUS_TRY(
      take_activations(sink, "vision patches, qkv or mlp", kLife, kPhase, device.activations(), 1, wide_values, &wide));
  return take_rows(sink, "vision products, attention", kLife, kPhase, 1, op_bytes, &op_scratch);
}

void embed_views(const VisionModel& m, DeviceView<const float> pixels, int64_t views, const VisionScratch& s,
                 Queue& q) {
  const TowerPass pass = tower_pass(m, views, s, q);
  pass.for_each_block(pass.blocks.others,
                      [&](int64_t first, int64_t count) { embed_patches(pass, pixels, first, count, q); });
}

void encode_layers(const VisionModel& m, const LayerRange& range, int64_t views, const VisionScratch& s,
                   const StopSignal* stop, Queue& q) {
  const TowerPass pass = tower_pass(m, views, s, q);
  for (int32_t layer = range.first; layer < range.end; ++layer) {
    if (q.stopped(stop)) return;
    const VisionLayer& w = m.layers[layer];
    if (q.traits().lean)
      attend_in_blocks(pass, w, q);
    else
      attend_at_once(pass, w, q);
    pass.for_each_block(pass.blocks.mlp, [&](int64_t first, int64_t count) { run_mlp(pass, w, first, count, q); });
  }
}

void normalise_views(const VisionModel& m, int64_t views, const VisionScratch& s, Queue& q) {
  const DeviceView<float> hidden = s.hidden.slice_rows(0, views * m.config.patch_count());
  layernorm({.input = hidden,
             .weight = m.final_norm_weight,
             .bias = m.final_norm_bias,
             .epsilon = m.config.epsilon,
             .output = hidden},
            q);
}

Status encode_views(const VisionModel& m, DeviceView<const float> pixels, int64_t views, const VisionScratch& s,
                    const StopSignal* stop, Queue& q) {
  embed_views(m, pixels, views, s, q);
  encode_layers(m, {0, m.config.layer_count}, views, s, stop, q);
  normalise_views(m, views, s, q);
  return q.status();
}

}  // namespace ocellus
