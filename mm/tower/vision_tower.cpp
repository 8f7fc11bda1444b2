#include "mm/tower/vision_tower.h"

#include <algorithm>

#include "kernels/attention/attend_rows.h"
#include "kernels/linear/elementwise.h"
#include "kernels/linear/rmsnorm.h"
#include "kernels/rows/class_rows.h"
#include "kernels/rows/layernorm.h"
#include "kernels/vision/patches.h"
#include "mm/tower/tower_pass.h"

namespace ocellus {
namespace {

/// Applies a norm of the layers or, in place, one before or after them.
void normalise(const TowerPass& pass, const NormWeights& norm, DeviceView<const float> rows, ActivationView output,
               Queue& q) {
  const float epsilon = pass.model.config.epsilon;
  if (norm.bias == nullptr)
    rmsnorm({.input = rows, .weight = norm.weight, .epsilon = epsilon, .output = output}, q);
  else
    layernorm({.input = rows, .weight = norm.weight, .bias = norm.bias, .epsilon = epsilon, .output = output}, q);
}

void normalise_rows(const TowerPass& pass, const NormWeights& norm, int64_t first, int64_t count, Queue& q) {
  normalise(pass, norm, pass.hidden.slice_rows(first, count), pass.normed(count), q);
}

/// hidden rows += scale * (W input + b). `room` holds the branch's rows if there is a scale.
void add_branch(const TowerPass& pass, const Linear& map, const float* scale, ActivationView input, ActivationView room,
                int64_t first, Queue& q) {
  const DeviceView<float> hidden = pass.hidden.slice_rows(first, input.rows);
  matmul({.input = input,
          .weights = {map.weight},
          .biases = {map.bias},
          .outputs = {scale == nullptr ? ActivationView(hidden) : room},
          .accumulate = scale == nullptr,
          .scratch = pass.scratch.op_scratch},
         q);
  if (scale != nullptr) add_scaled_rows({.values = hidden, .addend = room, .scale = scale}, q);
}

void attend_rows_of(const TowerPass& pass, ActivationView query, const KvLayerRows& rows, Queue& q) {
  attend_rows({.query = query,
               .query_heads = pass.model.config.heads,
               .rows = rows,
               .row_count = pass.model.config.rows_per_view(),
               .bounds = RowBounds::all(),
               .sequences = pass.views,
               .output = pass.normed(query.rows),
               .scratch = pass.scratch.op_scratch},
              q);
}

void add_attention_output(const TowerPass& pass, const VisionLayer& w, int64_t first, int64_t count, Queue& q) {
  add_branch(pass, w.attention_output, w.attention_scale, pass.normed(count), pass.wide(count, pass.model.config.width),
             first, q);
}

/// Normalises queries or keys, all heads of a row together.
void normalise_heads(const TowerPass& pass, const float* weight, ActivationView rows, Queue& q) {
  if (weight == nullptr) return;
  rmsnorm({.input = rows, .weight = weight, .epsilon = pass.model.config.epsilon, .output = rows}, q);
}

/// Returns keys and values of all views as attention reads them: f16 rows unchanged, f32 rows rounded and laid out by
/// head.
KvLayerRows key_value_rows(const TowerPass& pass, ActivationView key, ActivationView value, Queue& q) {
  const VisionConfig& c = pass.model.config;
  const VisionScratch& s = pass.scratch;
  if (key.type == ActivationType::kF16) {
    const int64_t sequence = int64_t{c.rows_per_view()} * key.stride;
    return {key.half_row(0),   value.half_row(0), c.heads,      c.head_dim(),
            c.rows_per_view(), key.stride,        c.head_dim(), sequence};
  }
  const KvLayerRows rows =
      KvLayerRows::head_major(s.keys.data, s.values.data, c.heads, c.head_dim(), c.rows_per_view());
  round_kv({.keys = key, .values = value, .out = rows}, q);
  return rows;
}

void attend_at_once(const TowerPass& pass, const VisionLayer& w, Queue& q) {
  const VisionConfig& c = pass.model.config;
  const int64_t rows = pass.hidden.rows;
  const ActivationView qkv = pass.wide(rows, 3 * int64_t{c.width});
  const ActivationView query = qkv.slice_cols(0, c.width), key = qkv.slice_cols(c.width, c.width),
                       value = qkv.slice_cols(2 * int64_t{c.width}, c.width);
  normalise_rows(pass, w.attention_norm, 0, rows, q);
  matmul({.input = pass.normed(rows),
          .count = 3,
          .weights = {w.query.weight, w.key.weight, w.value.weight},
          .biases = {w.query.bias, w.key.bias, w.value.bias},
          .outputs = {query, key, value},
          .scratch = pass.scratch.op_scratch},
         q);
  normalise_heads(pass, w.query_norm, query, q);
  normalise_heads(pass, w.key_norm, key, q);
  attend_rows_of(pass, query, key_value_rows(pass, key, value, q), q);
  add_attention_output(pass, w, 0, rows, q);
}

/// Runs attention of one view in blocks: the keys and values of all rows, then the queries of each block. For these its
/// rows are normalised again, which costs little; only its own rows have changed by then.
void attend_in_blocks(const TowerPass& pass, const VisionLayer& w, Queue& q) {
  const VisionConfig& c = pass.model.config;
  const VisionScratch& s = pass.scratch;
  const KvLayerRows rows =
      KvLayerRows::head_major(s.keys.data, s.values.data, c.heads, c.head_dim(), c.rows_per_view());
  pass.for_each_block(pass.blocks.others, [&](int64_t first, int64_t count) {
    const ActivationView both = pass.wide(count, 2 * int64_t{c.width});
    const ActivationView key = both.slice_cols(0, c.width), value = both.slice_cols(c.width, c.width);
    normalise_rows(pass, w.attention_norm, first, count, q);
    matmul({.input = pass.normed(count),
            .count = 2,
            .weights = {w.key.weight, w.value.weight},
            .biases = {w.key.bias, w.value.bias},
            .outputs = {key, value},
            .scratch = s.op_scratch},
           q);
    normalise_heads(pass, w.key_norm, key, q);
    round_kv({.keys = key, .values = value, .first = first, .out = rows}, q);
  });
  pass.for_each_block(pass.blocks.others, [&](int64_t first, int64_t count) {
    const ActivationView query = pass.wide(count, c.width);
    normalise_rows(pass, w.attention_norm, first, count, q);
    matmul({.input = pass.normed(count),
            .weights = {w.query.weight},
            .biases = {w.query.bias},
            .outputs = {query},
            .scratch = s.op_scratch},
           q);
    normalise_heads(pass, w.query_norm, query, q);
    attend_rows_of(pass, query, rows, q);
    add_attention_output(pass, w, first, count, q);
  });
}

void run_mlp(const TowerPass& pass, const VisionLayer& w, int64_t first, int64_t count, Queue& q) {
  const VisionConfig& c = pass.model.config;
  const ActivationView wide = pass.wide(count, c.mlp_width);
  normalise_rows(pass, w.mlp_norm, first, count, q);
  matmul({.input = pass.normed(count),
          .weights = {w.mlp_up.weight},
          .biases = {w.mlp_up.bias},
          .outputs = {wide},
          .activation = c.activation,
          .scratch = pass.scratch.op_scratch},
         q);
  add_branch(pass, w.mlp_down, w.mlp_scale, wide, pass.normed(count), first, q);
}

/// Embeds patches, without positions, in rows [first, first + count) of the pass. Rows before a view's patches get the
/// bias only.
void embed_patches(const TowerPass& pass, DeviceView<const float> pixels, int64_t first, int64_t count, Queue& q) {
  const VisionModel& m = pass.model;
  const VisionConfig& c = m.config;
  const ActivationView patches = pass.wide(count, c.patch_values());
  cut_patches({.pixels = pixels,
               .side = c.image_size,
               .patch = c.patch_size,
               .lead = c.class_rows(),
               .first = first,
               .output = patches},
              q);
  matmul({.input = patches,
          .weights = {m.patch_embedding.weight},
          .biases = {m.patch_embedding.bias},
          .outputs = {pass.hidden.slice_rows(first, count)},
          .scratch = pass.scratch.op_scratch},
         q);
}

/// Adds positions, and class rows if there are any.
void place_rows(const TowerPass& pass, int64_t first, int64_t count, Queue& q) {
  const VisionModel& m = pass.model;
  const VisionConfig& c = m.config;
  const DeviceView<float> hidden = pass.hidden.slice_rows(first, count);
  if (c.has_class_row)
    return place_class_rows({.values = hidden, .class_row = m.class_row, .positions = m.positions, .first = first}, q);
  // A block uses its own positions; several views repeat all of them.
  const DeviceView<const float> positions(reinterpret_cast<const float*>(m.positions.data), c.patch_count(), c.width);
  add_rows({.values = hidden, .addend = positions.slice_rows(first, std::min<int64_t>(count, c.patch_count()))}, q);
}

}  // namespace

void embed_views(const VisionModel& m, DeviceView<const float> pixels, int64_t views, const VisionScratch& s,
                 Queue& q) {
  const TowerPass pass = tower_pass(m, views, s, q);
  pass.for_each_block(pass.blocks.others, [&](int64_t first, int64_t count) {
    const DeviceView<float> hidden = pass.hidden.slice_rows(first, count);
    embed_patches(pass, pixels, first, count, q);
    place_rows(pass, first, count, q);
    if (m.first_norm.weight != nullptr) normalise(pass, m.first_norm, hidden, hidden, q);
  });
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
    pass.for_each_block(pass.blocks.mlp, [&](int64_t first, int64_t count) {
      // The CPU needs milliseconds per layer, so it checks for a stop more often. On a GPU every check counts as a
      // layer.
      if (q.on_cuda() || !q.stopped(stop)) run_mlp(pass, w, first, count, q);
    });
  }
}

void normalise_views(const VisionModel& m, int64_t views, const VisionScratch& s, Queue& q) {
  const TowerPass pass = tower_pass(m, views, s, q);
  if (m.final_norm.weight != nullptr) normalise(pass, m.final_norm, pass.hidden, pass.hidden, q);
}

Status encode_views(const VisionModel& m, DeviceView<const float> pixels, int64_t views, const VisionScratch& s,
                    const StopSignal* stop, Queue& q) {
  embed_views(m, pixels, views, s, q);
  encode_layers(m, {0, m.config.layer_count}, views, s, stop, q);
  normalise_views(m, views, s, q);
  return q.status();
}

}  // namespace ocellus
