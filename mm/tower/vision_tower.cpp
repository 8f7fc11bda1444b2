#include "mm/tower/vision_tower.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "kernels/attention/attend_rows.h"
#include "kernels/linear/elementwise.h"
#include "kernels/linear/rmsnorm.h"
#include "kernels/rows/class_rows.h"
#include "kernels/rows/layernorm.h"
#include "kernels/rows/rope.h"
#include "kernels/vision/grid_positions.h"
#include "kernels/vision/patches.h"
#include "mm/tower/projector.h"
#include "mm/tower/tower_notes.h"
#include "mm/tower/tower_pass.h"

namespace ocellus {
namespace {

/// Applies a norm of the layers or, in place, one before or after them.
void normalise(const TowerPass& pass, const NormWeights& norm, DeviceView<const float> rows, ActivationView output,
               Queue& q) {
  apply_norm(norm, pass.model.config.epsilon, rows, output, q);
}

void normalise_rows(const TowerPass& pass, const NormWeights& norm, int64_t first, int64_t count, Queue& q) {
  normalise(pass, norm, pass.hidden.slice_rows(first, count), pass.normed(count), q);
}

void clamp(const BoundedLinear::Bounds& bounds, const ActivationView& rows, Queue& q) {
  if (bounds.used()) clamp_rows({.values = rows, .low = bounds.low, .high = bounds.high}, q);
}

/// The last map of a branch, whose output may be scaled or normalised.
struct BranchEnd {
  const BoundedLinear& map;
  const float* scale;
  const float* norm;
};

/// hidden rows += scale * (W input + b), or the norm of that. `room` holds the branch's rows if there is a scale.
void add_branch(const TowerPass& pass, const BranchEnd& end, ActivationView input, ActivationView room, int64_t first,
                Queue& q) {
  const DeviceView<float> hidden = pass.hidden.slice_rows(first, input.rows);
  const bool adds = end.scale == nullptr && end.norm == nullptr;
  if (end.norm != nullptr) room = pass.scratch.branch.slice_rows(0, input.rows);
  clamp(end.map.input, input, q);
  matmul({.input = input,
          .weights = {end.map.weight},
          .biases = {end.map.bias},
          .outputs = {adds ? ActivationView(hidden) : room},
          .accumulate = adds,
          .scratch = pass.scratch.op_scratch},
         q);
  if (!adds) clamp(end.map.output, room, q);
  if (end.scale != nullptr) add_scaled_rows({.values = hidden, .addend = room, .scale = end.scale}, q);
  if (end.norm != nullptr)
    rmsnorm(
        {.input = room, .weight = end.norm, .epsilon = pass.model.config.epsilon, .output = hidden, .accumulate = true},
        q);
}

/// Rotations of the tower: both halves of a head's channels, by the patch's line and column.
RopeParams tower_rope(const VisionConfig& c) {
  return {.pairing = c.rotates_quarters ? RopePairing::kQuarters : RopePairing::kHalves,
          .rotated = c.head_dim(),
          .base = c.rope_base};
}

/// A map and its output.
struct MapTo {
  const BoundedLinear& map;
  ActivationView output;
};

/// Maps the normalised rows from `first` on. Maps whose inputs have bounds of their own read rows that are normalised
/// once more.
void run_maps(const TowerPass& pass, const NormWeights& norm, int64_t first, int64_t count, std::span<const MapTo> maps,
              Queue& q) {
  for (size_t i = 0; i < maps.size();) {
    MatmulArgs args = {.input = pass.normed(count), .count = 0, .scratch = pass.scratch.op_scratch};
    normalise_rows(pass, norm, first, count, q);
    const BoundedLinear::Bounds bounds = maps[i].map.input;
    clamp(bounds, args.input, q);
    for (; i < maps.size() && maps[i].map.input == bounds; ++i) {
      args.weights[args.count] = maps[i].map.weight;
      args.biases[args.count] = maps[i].map.bias;
      args.outputs[args.count++] = maps[i].output;
    }
    matmul(args, q);
  }
  for (const MapTo& to : maps) clamp(to.map.output, to.output, q);
}

/// Attention of rows `first` and on of a pass, in its own windows if the layer has them.
void attend_rows_of(const TowerPass& pass, int32_t layer, int64_t first, ActivationView query, const KvLayerRows& rows,
                    Queue& q) {
  const bool in_windows = pass.model.config.has_windows(layer);
  attend_rows({.query = query,
               .query_heads = pass.model.config.heads,
               .rows = rows,
               .first_row = in_windows ? first : 0,
               .row_count = pass.batch.rows_per_view(),
               .bounds = in_windows ? RowBounds::listed(pass.scratch.seen.data + first) : RowBounds::all(),
               .sequences = pass.batch.views,
               .output = pass.normed(query.rows),
               .scratch = pass.scratch.op_scratch},
              q);
}

void add_attention_output(const TowerPass& pass, const VisionLayer& w, int64_t first, int64_t count, Queue& q) {
  add_branch(pass, {w.attention_output, w.attention_scale, w.attention_output_norm}, pass.normed(count),
             pass.wide(count, pass.model.config.width), first, q);
}

/// Normalises queries or keys `first` and on, all heads of a row together, or rotates them, as the tower does.
void prepare_heads(const TowerPass& pass, const float* weight, int64_t first, ActivationView rows, Queue& q) {
  const VisionConfig& c = pass.model.config;
  if (c.normalises_heads) rmsnorm({.input = rows, .weight = weight, .epsilon = c.epsilon, .output = rows}, q);
  if (!c.rotates) return;
  rotate({.values = rows,
          .head_dim = c.head_dim(),
          .params = tower_rope(c),
          .angles = pass.angles().slice_rows(first, rows.rows)},
         q);
}

/// Normalises each head, those of values without weights. Scores that are not divided by sqrt(E) want longer queries.
void normalise_each_head(const TowerPass& pass, const VisionLayer& w, NormaliseHeadsArgs args, Queue& q) {
  const VisionConfig& c = pass.model.config;
  if (!c.normalises_each_head) return;
  args.query_weight = w.query_norm;
  args.key_weight = w.key_norm;
  args.query_scale = std::sqrt(static_cast<float>(c.head_dim()));
  args.head_dim = c.head_dim();
  args.epsilon = c.epsilon;
  normalise_heads(args, q);
}

/// Returns keys and values of all views as attention reads them: f16 rows unchanged, f32 rows rounded and laid out by
/// head.
KvLayerRows key_value_rows(const TowerPass& pass, ActivationView key, ActivationView value, Queue& q) {
  const VisionConfig& c = pass.model.config;
  const VisionScratch& s = pass.scratch;
  const int64_t each = pass.batch.rows_per_view();
  if (key.type == ActivationType::kF16)
    return {key.half_row(0), value.half_row(0), c.heads,          c.head_dim(), each,
            key.stride,      c.head_dim(),      each * key.stride};
  const KvLayerRows rows = KvLayerRows::head_major(s.keys.data, s.values.data, c.heads, c.head_dim(), each);
  round_kv({.keys = key, .values = value, .out = rows}, q);
  return rows;
}

/// Queries, keys and values of all rows, side by side in scratch.wide.
struct AttentionRows {
  explicit AttentionRows(const TowerPass& pass) {
    const int64_t width = pass.model.config.width;
    const ActivationView all = pass.wide(pass.hidden.rows, 3 * width);
    query = all.slice_cols(0, width);
    key = all.slice_cols(width, width);
    value = all.slice_cols(2 * width, width);
  }
  ActivationView query, key, value;
};

/// Runs attention of one view in blocks: the keys and values of all rows, then the queries of each block. For these its
/// rows are normalised again, which costs little; only its own rows have changed by then.
void attend_in_blocks(const TowerPass& pass, int32_t layer, Queue& q) {
  const VisionLayer& w = pass.model.layers[layer];
  const VisionConfig& c = pass.model.config;
  const VisionScratch& s = pass.scratch;
  const KvLayerRows rows =
      KvLayerRows::head_major(s.keys.data, s.values.data, c.heads, c.head_dim(), pass.batch.rows_per_view());
  pass.for_each_block(pass.blocks.others, [&](int64_t first, int64_t count) {
    const ActivationView both = pass.wide(count, 2 * int64_t{c.width});
    const ActivationView key = both.slice_cols(0, c.width), value = both.slice_cols(c.width, c.width);
    run_maps(pass, w.attention_norm, first, count, std::array<MapTo, 2>{{{w.key, key}, {w.value, value}}}, q);
    normalise_each_head(pass, w, {.key = key, .value = value}, q);
    prepare_heads(pass, w.key_norm, first, key, q);
    round_kv({.keys = key, .values = value, .first = first, .out = rows}, q);
  });
  pass.for_each_block(pass.blocks.others, [&](int64_t first, int64_t count) {
    const ActivationView query = pass.wide(count, c.width);
    run_maps(pass, w.attention_norm, first, count, std::array<MapTo, 1>{{{w.query, query}}}, q);
    normalise_each_head(pass, w, {.query = query}, q);
    prepare_heads(pass, w.query_norm, first, query, q);
    attend_rows_of(pass, layer, first, query, rows, q);
    note_attention(pass, layer, first, query, rows, q);
    add_attention_output(pass, w, first, count, q);
  });
}

/// Gate and up together; the gated rows are in the gate's place.
ActivationView run_gated_maps(const TowerPass& pass, const VisionLayer& w, int64_t first, int64_t count, Queue& q) {
  const VisionConfig& c = pass.model.config;
  const ActivationView both = pass.wide(count, c.mlp_values());
  const ActivationView gate = both.slice_cols(0, c.mlp_width), up = both.slice_cols(c.mlp_values() / 2, c.mlp_width);
  run_maps(pass, w.mlp_norm, first, count, std::array<MapTo, 2>{{{w.mlp_gate, gate}, {w.mlp_up, up}}}, q);
  gated_activation({.gate = gate, .up = up, .activation = c.activation}, q);
  return gate;
}

/// Adds positions, and class rows if there are any.
void add_places(const TowerPass& pass, int64_t first, int64_t count, Queue& q) {
  const VisionModel& m = pass.model;
  const VisionConfig& c = m.config;
  const DeviceView<float> hidden = pass.hidden.slice_rows(first, count);
  if (c.has_class_row)
    return place_class_rows({.values = hidden, .class_row = m.class_row, .positions = m.positions, .first = first}, q);
  const DeviceView<const float> table(reinterpret_cast<const float*>(m.positions.data), m.positions.rows, c.width);
  if (c.axis_positions > 0)
    return add_axis_positions(
        {.values = hidden, .table = table, .side = c.axis_positions, .grid = pass.batch.grid, .first = first}, q);
  if (c.position_side > 0)
    return add_positions(
        {.values = hidden, .table = table, .side = c.position_side, .grid = pass.batch.grid, .first = first}, q);
  // A block uses its own positions; several views repeat all of them.
  if (!c.any_size) add_rows({.values = hidden, .addend = table.slice_rows(first, std::min(count, table.rows))}, q);
}

/// Embeds patches, without positions, in rows [first, first + count) of the pass. A still picture is both frames of a
/// pair.
void embed_patches(const TowerPass& pass, DeviceView<const float> pixels, int64_t first, int64_t count, Queue& q) {
  cut_frame(pass, pixels, 0, first, count, q);
  embed_frame(pass, 0, first, count, q);
  if (pass.model.next_frame_embedding.rows == 0) return;
  if (pass.batch.frames > 1) cut_frame(pass, pixels, 1, first, count, q);
  embed_frame(pass, 1, first, count, q);
}

/// Gives the rows of a layer to its projector, if it has one.
void project_inner_rows(const TowerPass& pass, int32_t layer, DeviceView<float> out, Queue& q) {
  const VisionConfig& c = pass.model.config;
  for (int32_t i = 0; i < c.deepstack_count; ++i)
    if (c.deepstack_layers[i] == layer)
      project_rows(pass.model, pass.model.deepstack[i], pass.batch, pass.scratch,
                   out.slice_cols(int64_t{c.output_width} * (i + 1), c.output_width), q);
}

}  // namespace

void apply_norm(const NormWeights& norm, float epsilon, DeviceView<const float> rows, ActivationView output, Queue& q) {
  if (norm.bias == nullptr)
    rmsnorm({.input = rows, .weight = norm.weight, .epsilon = epsilon, .output = output}, q);
  else
    layernorm({.input = rows, .weight = norm.weight, .bias = norm.bias, .epsilon = epsilon, .output = output}, q);
}

void cut_frame(const TowerPass& pass, DeviceView<const float> pixels, int32_t frame, int64_t first, int64_t count,
               Queue& q) {
  const VisionConfig& c = pass.model.config;
  const ViewBatch& batch = pass.batch;
  const int64_t frame_rows = pixels.rows / batch.frames;
  cut_patches({.pixels = pixels.slice_rows(frame * frame_rows, frame_rows),
               .height = batch.size.height,
               .grid = batch.grid,
               .patch = c.patch_size,
               .lead = batch.lead,
               .first = first,
               .output = pass.wide(count, c.patch_values())},
              q);
}

/// Rows before a view's patches get the bias only.
void embed_frame(const TowerPass& pass, int32_t frame, int64_t first, int64_t count, Queue& q) {
  const VisionModel& m = pass.model;
  const bool is_first = frame == 0;
  matmul({.input = pass.wide(count, m.config.patch_values()),
          .weights = {is_first ? m.patch_embedding.weight : m.next_frame_embedding},
          .biases = {is_first ? m.patch_embedding.bias : nullptr},
          .outputs = {pass.hidden.slice_rows(first, count)},
          .accumulate = !is_first,
          .scratch = pass.scratch.op_scratch},
         q);
}

void place_rows(const TowerPass& pass, int64_t first, int64_t count, Queue& q) {
  const VisionModel& m = pass.model;
  const DeviceView<float> hidden = pass.hidden.slice_rows(first, count);
  add_places(pass, first, count, q);
  if (m.first_norm.weight != nullptr) normalise(pass, m.first_norm, hidden, hidden, q);
}

void find_places(const TowerPass& pass, Queue& q) {
  const VisionConfig& c = pass.model.config;
  if (c.rotates)
    grid_angles(
        {.grid = pass.batch.grid, .params = tower_rope(c), .cols_first = c.rotates_quarters, .angles = pass.angles()},
        q);
  if (c.window > 0) list_windows({.grid = pass.batch.grid, .spans = pass.scratch.seen.data}, q);
}

void begin_attention(const TowerPass& pass, int32_t layer, Queue& q) {
  const VisionLayer& w = pass.model.layers[layer];
  const AttentionRows rows(pass);
  run_maps(pass, w.attention_norm, 0, pass.hidden.rows,
           std::array<MapTo, 3>{{{w.query, rows.query}, {w.key, rows.key}, {w.value, rows.value}}}, q);
  normalise_each_head(pass, w, {.query = rows.query, .key = rows.key, .value = rows.value}, q);
  prepare_heads(pass, w.query_norm, 0, rows.query, q);
  prepare_heads(pass, w.key_norm, 0, rows.key, q);
}

void attend(const TowerPass& pass, int32_t layer, Queue& q) {
  const AttentionRows rows(pass);
  const KvLayerRows keys_and_values = key_value_rows(pass, rows.key, rows.value, q);
  attend_rows_of(pass, layer, 0, rows.query, keys_and_values, q);
  note_attention(pass, layer, 0, rows.query, keys_and_values, q);
}

void end_attention(const TowerPass& pass, int32_t layer, Queue& q) {
  add_attention_output(pass, pass.model.layers[layer], 0, pass.hidden.rows, q);
}

void run_mlp(const TowerPass& pass, int32_t layer, int64_t first, int64_t count, Queue& q) {
  const VisionConfig& c = pass.model.config;
  const VisionLayer& w = pass.model.layers[layer];
  const BranchEnd end{w.mlp_down, w.mlp_scale, w.mlp_output_norm};
  if (c.gates_mlp) return add_branch(pass, end, run_gated_maps(pass, w, first, count, q), pass.normed(count), first, q);
  normalise_rows(pass, w.mlp_norm, first, count, q);
  const ActivationView wide = pass.wide(count, c.mlp_width);
  matmul({.input = pass.normed(count),
          .weights = {w.mlp_up.weight},
          .biases = {w.mlp_up.bias},
          .outputs = {wide},
          .activation = c.activation,
          .scratch = pass.scratch.op_scratch},
         q);
  add_branch(pass, end, wide, pass.normed(count), first, q);
}

void embed_views(const VisionModel& m, DeviceView<const float> pixels, const ViewBatch& batch, const VisionScratch& s,
                 Queue& q) {
  const TowerPass pass = tower_pass(m, batch, s, q);
  pass.for_each_block(pass.blocks.others, [&](int64_t first, int64_t count) {
    embed_patches(pass, pixels, first, count, q);
    place_rows(pass, first, count, q);
  });
  find_places(pass, q);
}

void encode_layers(const VisionModel& m, const LayerRange& range, const ViewBatch& batch, const VisionScratch& s,
                   DeviceView<float> out, const StopSignal* stop, Queue& q) {
  const TowerPass pass = tower_pass(m, batch, s, q);
  for (int32_t layer = range.first; layer < range.end; ++layer) {
    if (q.stopped(stop)) return;
    if (q.traits().lean) {
      attend_in_blocks(pass, layer, q);
    } else {
      begin_attention(pass, layer, q);
      attend(pass, layer, q);
      end_attention(pass, layer, q);
    }
    pass.for_each_block(pass.blocks.mlp, [&](int64_t first, int64_t count) {
      // The CPU needs milliseconds per layer, so it checks for a stop more often. On a GPU every check counts as a
      // layer.
      if (q.on_cuda() || !q.stopped(stop)) run_mlp(pass, layer, first, count, q);
    });
    project_inner_rows(pass, layer, out, q);
  }
}

void normalise_views(const VisionModel& m, const ViewBatch& batch, const VisionScratch& s, Queue& q) {
  const TowerPass pass = tower_pass(m, batch, s, q);
  if (m.final_norm.weight != nullptr) normalise(pass, m.final_norm, pass.hidden, pass.hidden, q);
}

Status encode_views(const VisionModel& m, DeviceView<const float> pixels, const ViewBatch& batch,
                    const VisionScratch& s, DeviceView<float> out, const StopSignal* stop, Queue& q) {
  embed_views(m, pixels, batch, s, q);
  encode_layers(m, {0, m.config.layer_count}, batch, s, out, stop, q);
  normalise_views(m, batch, s, q);
  return q.status();
}

}  // namespace ocellus
