#include "mm/vision_tower.h"

#include <algorithm>

#include "kernels/attend_rows.h"
#include "kernels/layernorm.h"
#include "kernels/matmul.h"
#include "kernels/patches.h"

namespace ocellus {
namespace {

/// On the CPU the MLP is computed this many rows at a time: wide enough for full matrix speed, and the widest buffer of
/// the tower stays small. A GPU wants all rows at once.
constexpr int64_t kMlpRowsOnCpu = 128;

int64_t mlp_rows(const VisionConfig& c, int64_t views, const DeviceTraits& device) {
  const int64_t rows = views * c.patch_count();
  return device.is_cuda() ? rows : std::min(kMlpRowsOnCpu, rows);
}

/// What the layers of one call share.
struct TowerPass {
  const VisionModel& model;
  const VisionScratch& scratch;
  int64_t views;
  int64_t rows;                  // views * P
  DeviceView<float> hidden;      // [rows, D]
  ActivationView normed, mixed;  // [rows, D], the same memory
};

void embed_patches(const TowerPass& pass, DeviceView<const float> pixels, Queue& q) {
  const VisionConfig& c = pass.model.config;
  const VisionScratch& s = pass.scratch;
  const ActivationView patches(s.patches_or_mlp.data, pass.rows, c.patch_values(), c.patch_values(),
                               s.patches_or_mlp.type);
  cut_patches({.pixels = pixels, .side = c.image_size, .patch = c.patch_size, .output = patches}, q);
  matmul({.input = patches,
          .weights = {pass.model.patch_embedding.weight},
          .biases = {pass.model.patch_embedding.bias},
          .outputs = {pass.hidden},
          .scratch = s.matmul_scratch},
         q);
  add_rows({.values = pass.hidden, .addend = {pass.model.positions, c.patch_count(), c.width}}, q);
}

/// Keys and values as attention reads them: f16 rows as they are, f32 rows rounded and laid out by head.
KvLayerRows key_value_rows(const VisionConfig& c, const VisionScratch& s, ActivationView key, ActivationView value,
                           Queue& q) {
  if (key.type == ActivationType::kF16) {
    const int64_t sequence = int64_t{c.patch_count()} * key.stride;
    return {key.half_row(0), value.half_row(0), c.heads,      c.head_dim(),
            c.patch_count(), key.stride,        c.head_dim(), sequence};
  }
  const KvLayerRows rows = KvLayerRows::head_major(s.keys.data, s.values.data, c.heads, c.head_dim(), c.patch_count());
  round_kv({.keys = key, .values = value, .out = rows}, q);
  return rows;
}

void attend(const TowerPass& pass, const VisionLayer& w, Queue& q) {
  const VisionConfig& c = pass.model.config;
  const VisionScratch& s = pass.scratch;
  const ActivationView qkv = s.qkv.slice_rows(0, pass.rows);
  const ActivationView query = qkv.slice_cols(0, c.width);
  const ActivationView key = qkv.slice_cols(c.width, c.width);
  const ActivationView value = qkv.slice_cols(2 * int64_t{c.width}, c.width);

  layernorm({.input = pass.hidden,
             .weight = w.attention_norm_weight,
             .bias = w.attention_norm_bias,
             .epsilon = c.epsilon,
             .output = pass.normed},
            q);
  matmul({.input = pass.normed,
          .count = 3,
          .weights = {w.query.weight, w.key.weight, w.value.weight},
          .biases = {w.query.bias, w.key.bias, w.value.bias},
          .outputs = {query, key, value},
          .scratch = s.matmul_scratch},
         q);
  attend_rows({.query = query,
               .query_heads = c.heads,
               .rows = key_value_rows(c, s, key, value, q),
               .row_count = c.patch_count(),
               .causal = false,
               .sequences = pass.views,
               .output = pass.mixed,
               .scratch = s.attend_scratch},
              q);
  matmul({.input = pass.mixed,
          .weights = {w.attention_output.weight},
          .biases = {w.attention_output.bias},
          .outputs = {pass.hidden},
          .accumulate = true,
          .scratch = s.matmul_scratch},
         q);
}

void run_mlp(const TowerPass& pass, const VisionLayer& w, Queue& q) {
  const VisionConfig& c = pass.model.config;
  const VisionScratch& s = pass.scratch;
  layernorm({.input = pass.hidden,
             .weight = w.mlp_norm_weight,
             .bias = w.mlp_norm_bias,
             .epsilon = c.epsilon,
             .output = pass.normed},
            q);
  const int64_t block = mlp_rows(c, pass.views, q.traits());
  for (int64_t first = 0; first < pass.rows; first += block) {
    const int64_t count = std::min(block, pass.rows - first);
    const ActivationView wide(s.patches_or_mlp.data, count, c.mlp_width, c.mlp_width, s.patches_or_mlp.type);
    matmul({.input = pass.normed.slice_rows(first, count),
            .weights = {w.mlp_up.weight},
            .biases = {w.mlp_up.bias},
            .outputs = {wide},
            .activation = c.activation,
            .scratch = s.matmul_scratch},
           q);
    matmul({.input = wide,
            .weights = {w.mlp_down.weight},
            .biases = {w.mlp_down.bias},
            .outputs = {pass.hidden.slice_rows(first, count)},
            .accumulate = true,
            .scratch = s.matmul_scratch},
           q);
  }
}

TowerPass tower_pass(const VisionModel& m, int64_t views, const VisionScratch& s) {
  const int64_t rows = views * m.config.patch_count();
  const ActivationView normed = s.normed_or_mixed.slice_rows(0, rows);
  return {m, s, views, rows, s.hidden.slice_rows(0, rows), normed, normed};
}

int64_t matmul_bytes(const VisionConfig& c, int64_t views, const DeviceTraits& device) {
  const int64_t rows = views * c.patch_count(), wide_rows = mlp_rows(c, views, device);
  const int64_t joined = int64_t{c.width} * c.scale_factor * c.scale_factor;
  return std::max({matmul_scratch_bytes(rows, std::max(c.width, c.patch_values()), c.width, device),
                   matmul_scratch_bytes(wide_rows, c.width, c.mlp_width, device),
                   matmul_scratch_bytes(wide_rows, c.mlp_width, c.width, device),
                   matmul_scratch_bytes(views * c.tokens_per_view(), joined, c.output_width, device)});
}

}  // namespace

Status VisionScratch::lay_out(const VisionConfig& c, int64_t views, const DeviceTraits& device, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  constexpr Phase kPhase = Phase::kImage;
  const ActivationType type = device.activations();
  const int64_t rows = views * c.patch_count();
  const int64_t pixel_count = 3 * int64_t{c.image_size} * c.image_size;
  int64_t qkv_cols = 3 * int64_t{c.width};
  // See pixels_over_qkv.
  if (!device.is_cuda()) qkv_cols = std::max(qkv_cols, (pixel_count + c.patch_count() - 1) / c.patch_count());
  const int64_t wide = std::max(rows * c.patch_values(), mlp_rows(c, views, device) * c.mlp_width);
  OCELLUS_TRY(take_rows(sink, "vision hidden", kLife, kPhase, rows, c.width, &hidden));
  OCELLUS_TRY(take_activations(sink, "vision normed or mixed", kLife, kPhase, type, rows, c.width, &normed_or_mixed));
  OCELLUS_TRY(take_activations(sink, device.is_cuda() ? "vision qkv" : "vision pixels or qkv", kLife, kPhase, type,
                               rows, qkv_cols, &qkv));
  OCELLUS_TRY(take_activations(sink, "vision patches or mlp", kLife, kPhase, type, 1, wide, &patches_or_mlp));
  if (type == ActivationType::kF32) {
    OCELLUS_TRY(take_rows(sink, "vision keys", kLife, kPhase, c.patch_count(), c.width, &keys));
    OCELLUS_TRY(take_rows(sink, "vision values", kLife, kPhase, c.patch_count(), c.width, &values));
  }
  if (device.is_cuda())
    OCELLUS_TRY(
        take_rows(sink, "vision projected", kLife, kPhase, views * c.tokens_per_view(), c.output_width, &projected));
  OCELLUS_TRY(take_rows(sink, "vision matmul", kLife, kPhase, 1, matmul_bytes(c, views, device), &matmul_scratch));
  return take_rows(sink, "vision attention", kLife, kPhase, 1, attend_rows_scratch_bytes(c.head_dim(), device),
                   &attend_scratch);
}

DeviceView<float> pixels_over_qkv(const VisionConfig& c, const VisionScratch& s) {
  return {static_cast<float*>(s.qkv.data), 3 * int64_t{c.image_size}, c.image_size};
}

void embed_views(const VisionModel& m, DeviceView<const float> pixels, int64_t views, const VisionScratch& s,
                 Queue& q) {
  embed_patches(tower_pass(m, views, s), pixels, q);
}

void encode_layers(const VisionModel& m, const LayerRange& range, int64_t views, const VisionScratch& s,
                   const StopSignal* stop, Queue& q) {
  const TowerPass pass = tower_pass(m, views, s);
  for (int32_t layer = range.first; layer < range.end; ++layer) {
    if (q.stopped(stop)) return;
    attend(pass, m.layers[layer], q);
    run_mlp(pass, m.layers[layer], q);
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
