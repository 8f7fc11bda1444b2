#include "mm/vision_tower.h"

#include <algorithm>

#include "kernels/attend_rows.h"
#include "kernels/layernorm.h"
#include "kernels/matmul.h"
#include "kernels/patches.h"

namespace ocellus {
namespace {

/// What the layers of one call share.
struct TowerPass {
  const VisionModel& model;
  const VisionScratch& scratch;
  int64_t views;
  DeviceView<float> hidden;  // [views * P, D]
  bool in_blocks;
  int64_t block_rows;

  /// Calls visit(first, count) for rows [first, end) in blocks.
  template <class Visit>
  void for_each_block(int64_t first, int64_t end, Visit visit) const {
    for (; first < end; first += block_rows) visit(first, std::min(block_rows, end - first));
  }
  /// The same for all rows; a block lies in one view, unless there is but one.
  template <class Visit>
  void for_each_block(Visit visit) const {
    const int64_t step = in_blocks ? int64_t{model.config.patch_count()} : hidden.rows;
    for (int64_t first = 0; first < hidden.rows; first += step) for_each_block(first, first + step, visit);
  }
  ActivationView normed(int64_t rows) const { return scratch.normed_or_mixed.slice_rows(0, rows); }
  ActivationView wide(int64_t rows, int64_t cols) const {
    return {scratch.wide.data, rows, cols, cols, scratch.wide.type};
  }
};

/// Rows that go through the layers together.
int64_t block_of(const VisionConfig& c, int64_t views, const DeviceTraits& device) {
  return device.block_rows((device.in_blocks() ? 1 : views) * c.patch_count());
}

TowerPass tower_pass(const VisionModel& m, int64_t views, const VisionScratch& s, const Queue& q) {
  const DeviceTraits device = q.traits();
  const DeviceView<float> hidden = s.hidden.slice_rows(0, views * m.config.patch_count());
  return {m, s, views, hidden, device.in_blocks(), block_of(m.config, views, device)};
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
  // Whole views take all positions again and again; a block takes its own.
  const DeviceView<const float> positions(m.positions, c.patch_count(), c.width);
  const int64_t place = first % c.patch_count();
  add_rows({.values = hidden, .addend = positions.slice_rows(place, std::min(count, c.patch_count() - place))}, q);
}

void normalise(const TowerPass& pass, const VisionLayer& w, int64_t first, int64_t count, Queue& q) {
  layernorm({.input = pass.hidden.slice_rows(first, count),
             .weight = w.attention_norm_weight,
             .bias = w.attention_norm_bias,
             .epsilon = pass.model.config.epsilon,
             .output = pass.normed(count)},
            q);
}

void attend_rows_of(const TowerPass& pass, ActivationView query, const KvLayerRows& rows, int64_t sequences, Queue& q) {
  attend_rows({.query = query,
               .query_heads = pass.model.config.heads,
               .rows = rows,
               .row_count = pass.model.config.patch_count(),
               .causal = false,
               .sequences = sequences,
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

/// All views at once. Attention reads f16 keys and values where the product leaves them.
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
  const KvLayerRows key_values{key.half_row(0), value.half_row(0), c.heads,      c.head_dim(),
                               c.patch_count(), key.stride,        c.head_dim(), int64_t{c.patch_count()} * key.stride};
  attend_rows_of(pass, query, key_values, pass.views, q);
  add_attention_output(pass, w, 0, rows, q);
}

/// The view whose rows begin at `view_first`, in blocks: the keys and values of all, then for each block its queries.
/// These need its rows normalised again, which costs little, and by then only its own rows change.
void attend_in_blocks(const TowerPass& pass, const VisionLayer& w, int64_t view_first, Queue& q) {
  const VisionConfig& c = pass.model.config;
  const VisionScratch& s = pass.scratch;
  const KvLayerRows rows = KvLayerRows::head_major(s.keys.data, s.values.data, c.heads, c.head_dim(), c.patch_count());
  const int64_t view_end = view_first + c.patch_count();
  pass.for_each_block(view_first, view_end, [&](int64_t first, int64_t count) {
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
    round_kv({.keys = key, .values = value, .first = first - view_first, .out = rows}, q);
  });
  pass.for_each_block(view_first, view_end, [&](int64_t first, int64_t count) {
    const ActivationView query = pass.wide(count, c.width);
    normalise(pass, w, first, count, q);
    matmul({.input = pass.normed(count),
            .weights = {w.query.weight},
            .biases = {w.query.bias},
            .outputs = {query},
            .scratch = s.op_scratch},
           q);
    attend_rows_of(pass, query, rows, 1, q);
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
  const int64_t block = block_of(c, views, device), tokens = device.block_rows(views * c.tokens_per_view());
  return std::max({matmul_scratch_bytes(block, std::max(c.width, c.patch_values()), c.width, device),
                   matmul_scratch_bytes(block, c.width, c.mlp_width, device),
                   matmul_scratch_bytes(block, c.mlp_width, c.width, device),
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
  normed_or_mixed = layers.activations(type, block_of(c, views, device), c.width);
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
  const int64_t products = (device.in_blocks() ? 2 : 3) * int64_t{c.width};
  const int64_t widest = std::max({int64_t{c.patch_values()}, products, int64_t{c.mlp_width}});
  const int64_t op_bytes = std::max(matmul_bytes(c, views, device), attend_rows_scratch_bytes(c.head_dim(), device));
  OCELLUS_TRY(take_turns(c, views, device, kPhase, sink));
  OCELLUS_TRY(take_rows(sink, "vision hidden", kLife, kPhase, views * c.patch_count(), c.width, &hidden));
  OCELLUS_TRY(take_activations(sink, "vision patches, qkv or mlp", kLife, kPhase, device.activations(),
                               block_of(c, views, device), widest, &wide));
  return take_rows(sink, "vision products, attention", kLife, kPhase, 1, op_bytes, &op_scratch);
}

void embed_views(const VisionModel& m, DeviceView<const float> pixels, int64_t views, const VisionScratch& s,
                 Queue& q) {
  const TowerPass pass = tower_pass(m, views, s, q);
  pass.for_each_block([&](int64_t first, int64_t count) { embed_patches(pass, pixels, first, count, q); });
}

void encode_layers(const VisionModel& m, const LayerRange& range, int64_t views, const VisionScratch& s,
                   const StopSignal* stop, Queue& q) {
  const TowerPass pass = tower_pass(m, views, s, q);
  for (int32_t layer = range.first; layer < range.end; ++layer) {
    if (q.stopped(stop)) return;
    const VisionLayer& w = m.layers[layer];
    if (!pass.in_blocks) attend_at_once(pass, w, q);
    for (int64_t view = 0; pass.in_blocks && view < views; ++view)
      attend_in_blocks(pass, w, view * m.config.patch_count(), q);
    pass.for_each_block([&](int64_t first, int64_t count) { run_mlp(pass, w, first, count, q); });
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
