#include "runtime/text_layer.h"

#include <algorithm>

#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "kernels/rmsnorm.h"
#include "kernels/rope.h"

namespace ocellus {

Status LayerScratch::lay_out(const TextConfig& c, int64_t rows, int thread_count, Phase phase, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  const int64_t widest = std::max<int64_t>(c.width, c.query_width());
  const int64_t matmul_bytes = matmul_scratch_bytes(rows, std::max<int64_t>(widest, c.mlp_width), thread_count);
  OCELLUS_TRY(take_rows(sink, "normed or mixed", kLife, phase, rows, widest, &normed_or_mixed));
  OCELLUS_TRY(take_rows(sink, "query, key, value", kLife, phase, rows, c.query_width() + 2 * c.kv_width(), &qkv));
  OCELLUS_TRY(take_rows(sink, "gate and up", kLife, phase, rows, 2 * int64_t{c.mlp_width}, &gate_up));
  return take_rows(sink, "matmul", kLife, phase, 1, matmul_bytes, &matmul_scratch);
}

LayerRows LayerScratch::view(const TextConfig& c, int64_t rows) const {
  const DeviceView<float> all = qkv.slice_rows(0, rows);
  const DeviceView<float> both = gate_up.slice_rows(0, rows);
  return {.normed = {normed_or_mixed.data, rows, c.width},
          .mixed = {normed_or_mixed.data, rows, c.query_width()},
          .query = all.slice_cols(0, c.query_width()),
          .key = all.slice_cols(c.query_width(), c.kv_width()),
          .value = all.slice_cols(c.query_width() + c.kv_width(), c.kv_width()),
          .gate = both.slice_cols(0, c.mlp_width),
          .up = both.slice_cols(c.mlp_width, c.mlp_width),
          .matmul_scratch = matmul_scratch};
}

void project_qkv(const TextConfig& c, const TextLayer& w, DeviceView<const float> hidden,
                 DeviceView<const float> angles, const LayerRows& rows, Queue& q) {
  rmsnorm({.input = hidden, .weight = w.attention_norm, .epsilon = c.epsilon, .output = rows.normed}, q);
  matmul({.input = rows.normed,
          .count = 3,
          .weights = {w.query.weight, w.key.weight, w.value.weight},
          .biases = {w.query.bias, w.key.bias, w.value.bias},
          .outputs = {rows.query, rows.key, rows.value},
          .scratch = rows.matmul_scratch},
         q);
  rotate({.values = rows.query, .head_dim = c.head_dim, .params = c.rope, .angles = angles}, q);
  rotate({.values = rows.key, .head_dim = c.head_dim, .params = c.rope, .angles = angles}, q);
}

void add_attention_output(const TextLayer& w, const LayerRows& rows, DeviceView<float> hidden, Queue& q) {
  matmul({.input = rows.mixed,
          .weights = {w.attention_output.weight},
          .biases = {w.attention_output.bias},
          .outputs = {hidden},
          .accumulate = true,
          .scratch = rows.matmul_scratch},
         q);
}

void add_mlp(const TextConfig& c, const TextLayer& w, const LayerRows& rows, DeviceView<float> hidden, Queue& q) {
  rmsnorm({.input = hidden, .weight = w.mlp_norm, .epsilon = c.epsilon, .output = rows.normed}, q);
  matmul({.input = rows.normed,
          .count = 2,
          .weights = {w.mlp_gate.weight, w.mlp_up.weight},
          .biases = {w.mlp_gate.bias, w.mlp_up.bias},
          .outputs = {rows.gate, rows.up},
          .scratch = rows.matmul_scratch},
         q);
  gated_silu({.gate = rows.gate, .up = rows.up}, q);
  matmul({.input = rows.gate,
          .weights = {w.mlp_down.weight},
          .biases = {w.mlp_down.bias},
          .outputs = {hidden},
          .accumulate = true,
          .scratch = rows.matmul_scratch},
         q);
}

}  // namespace ocellus
