#include "mm/vision_tower.h"

#include <algorithm>

#include "kernels/attend_rows.h"
#include "kernels/layernorm.h"
#include "kernels/matmul.h"
#include "kernels/patches.h"

namespace ocellus {
namespace {

void embed_patches(const VisionModel& m, const VisionScratch& s, Queue& q) {
  const VisionConfig& c = m.config;
  const DeviceView<float> patches(s.patches_or_mlp.data, c.patch_count(), c.patch_values());
  cut_patches({.pixels = s.pixels(c), .side = c.image_size, .patch = c.patch_size, .output = patches}, q);
  matmul({.input = patches,
          .weights = {m.patch_embedding.weight},
          .biases = {m.patch_embedding.bias},
          .outputs = {s.hidden},
          .scratch = s.matmul_scratch},
         q);
  add_rows({.values = s.hidden, .addend = {m.positions, c.patch_count(), c.width}}, q);
}

void attend(const VisionConfig& c, const VisionLayer& w, const VisionScratch& s, Queue& q) {
  const DeviceView<float> qkv(s.pixels_or_qkv.data, c.patch_count(), 3 * int64_t{c.width});
  const DeviceView<float> query = qkv.slice_cols(0, c.width);
  const DeviceView<float> key = qkv.slice_cols(c.width, c.width);
  const DeviceView<float> value = qkv.slice_cols(2 * int64_t{c.width}, c.width);
  const KvLayerRows rows{s.keys.data, s.values.data, c.heads, c.head_dim(), c.patch_count()};

  layernorm({.input = s.hidden,
             .weight = w.attention_norm_weight,
             .bias = w.attention_norm_bias,
             .epsilon = c.epsilon,
             .output = s.normed_or_mixed},
            q);
  matmul({.input = s.normed_or_mixed,
          .count = 3,
          .weights = {w.query.weight, w.key.weight, w.value.weight},
          .biases = {w.query.bias, w.key.bias, w.value.bias},
          .outputs = {query, key, value},
          .scratch = s.matmul_scratch},
         q);
  round_kv({.keys = key, .values = value, .out = rows}, q);
  attend_rows({.query = query,
               .query_heads = c.heads,
               .rows = rows,
               .row_count = c.patch_count(),
               .causal = false,
               .output = s.normed_or_mixed,
               .scratch = s.attend_scratch},
              q);
  matmul({.input = s.normed_or_mixed,
          .weights = {w.attention_output.weight},
          .biases = {w.attention_output.bias},
          .outputs = {s.hidden},
          .accumulate = true,
          .scratch = s.matmul_scratch},
         q);
}

void run_mlp(const VisionConfig& c, const VisionLayer& w, const VisionScratch& s, Queue& q) {
  layernorm({.input = s.hidden,
             .weight = w.mlp_norm_weight,
             .bias = w.mlp_norm_bias,
             .epsilon = c.epsilon,
             .output = s.normed_or_mixed},
            q);
  for (int64_t first = 0; first < c.patch_count(); first += kVisionMlpRows) {
    const int64_t count = std::min<int64_t>(kVisionMlpRows, c.patch_count() - first);
    const DeviceView<float> wide(s.patches_or_mlp.data, count, c.mlp_width);
    matmul({.input = s.normed_or_mixed.slice_rows(first, count),
            .weights = {w.mlp_up.weight},
            .biases = {w.mlp_up.bias},
            .outputs = {wide},
            .scratch = s.matmul_scratch},
           q);
    activate({.values = wide, .activation = c.activation}, q);
    matmul({.input = wide,
            .weights = {w.mlp_down.weight},
            .biases = {w.mlp_down.bias},
            .outputs = {s.hidden.slice_rows(first, count)},
            .accumulate = true,
            .scratch = s.matmul_scratch},
           q);
  }
}

}  // namespace

Status lay_out_vision_scratch(const VisionConfig& c, int thread_count, RowSink& sink, VisionScratch* out) {
  const int64_t patches = c.patch_count();
  const int64_t mlp_rows = std::min<int64_t>(kVisionMlpRows, patches);
  const int64_t pixel_count = 3 * int64_t{c.image_size} * c.image_size;
  const int64_t qkv_cols = std::max<int64_t>(3 * int64_t{c.width}, (pixel_count + patches - 1) / patches);
  const int64_t wide = std::max(patches * c.patch_values(), mlp_rows * c.mlp_width);
  const int64_t widest =
      std::max({int64_t{c.mlp_width}, int64_t{c.patch_values()}, int64_t{c.width} * c.scale_factor * c.scale_factor});
  const int64_t matmul_bytes =
      std::max(matmul_scratch_bytes(patches, std::max(c.width, c.patch_values()), thread_count),
               std::max(matmul_scratch_bytes(mlp_rows, c.mlp_width, thread_count),
                        matmul_scratch_bytes(c.tokens_per_view(), widest, thread_count)));
  constexpr Lifetime kLife = Lifetime::kScratch;
  constexpr Phase kPhase = Phase::kImage;
  OCELLUS_TRY(take_rows(sink, "vision hidden", kLife, kPhase, patches, c.width, &out->hidden));
  OCELLUS_TRY(take_rows(sink, "vision normed or mixed", kLife, kPhase, patches, c.width, &out->normed_or_mixed));
  OCELLUS_TRY(take_rows(sink, "vision pixels or qkv", kLife, kPhase, patches, qkv_cols, &out->pixels_or_qkv));
  OCELLUS_TRY(take_rows(sink, "vision patches or mlp", kLife, kPhase, 1, wide, &out->patches_or_mlp));
  OCELLUS_TRY(take_rows(sink, "vision keys", kLife, kPhase, patches, c.width, &out->keys));
  OCELLUS_TRY(take_rows(sink, "vision values", kLife, kPhase, patches, c.width, &out->values));
  OCELLUS_TRY(take_rows(sink, "vision matmul", kLife, kPhase, 1, matmul_bytes, &out->matmul_scratch));
  return take_rows(sink, "vision attention", kLife, kPhase, 1, attend_rows_scratch_bytes(c.head_dim(), thread_count),
                   &out->attend_scratch);
}

Status encode_view(const VisionModel& m, const VisionScratch& s, const StopSignal* stop, Queue& q) {
  const VisionConfig& c = m.config;
  embed_patches(m, s, q);
  for (const VisionLayer& layer : m.layers) {
    if (q.stopped(stop)) break;
    attend(c, layer, s, q);
    run_mlp(c, layer, s, q);
  }
  layernorm({.input = s.hidden,
             .weight = m.final_norm_weight,
             .bias = m.final_norm_bias,
             .epsilon = c.epsilon,
             .output = s.hidden},
            q);
  return q.status();
}

}  // namespace ocellus
