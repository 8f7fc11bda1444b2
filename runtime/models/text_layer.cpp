#include "runtime/models/text_layer.h"

#include <algorithm>

#include "kernels/linear/matmul.h"
#include "kernels/linear/norm_matmul.h"
#include "kernels/linear/rmsnorm.h"

namespace ocellus {

Status LayerScratch::lay_out(const TextConfig& c, int64_t rows, const Others& others, const DeviceTraits& device,
                             Phase phase, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  const ActivationType type = device.activations();
  const int64_t widest = std::max<int64_t>(c.width, c.query_width());
  const int64_t tallest = std::max<int64_t>({widest, c.mlp_width, others.outputs});
  const int64_t bytes = std::max({matmul_scratch_bytes(rows, widest, tallest, device),
                                  matmul_scratch_bytes(rows, c.mlp_width, c.width, device), others.op_bytes});
  OCELLUS_TRY(take_activations(sink, "normed or mixed", kLife, phase, type, rows, widest, &normed_or_mixed));
  OCELLUS_TRY(
      take_activations(sink, "query, key, value", kLife, phase, type, rows, c.query_width() + 2 * c.kv_width(), &qkv));
  OCELLUS_TRY(take_activations(sink, "gate and up", kLife, phase, type, rows, 2 * int64_t{c.mlp_width}, &gate_up));
  if (c.architecture->has_branch_norms)
    OCELLUS_TRY(take_rows(sink, "branch output", kLife, phase, rows, c.width, &branch));
  return take_rows(sink, others.op_bytes > 0 ? "matmul or attention" : "matmul", kLife, phase, 1, bytes,
                   &matmul_scratch);
}

LayerRows LayerScratch::view(const TextConfig& c, int64_t rows) const {
  const ActivationView all = qkv.slice_rows(0, rows);
  const ActivationView both = gate_up.slice_rows(0, rows);
  return {.normed = {normed_or_mixed.data, rows, c.width, c.width, normed_or_mixed.type},
          .mixed = {normed_or_mixed.data, rows, c.query_width(), c.query_width(), normed_or_mixed.type},
          .query = all.slice_cols(0, c.query_width()),
          .key = all.slice_cols(c.query_width(), c.kv_width()),
          .value = all.slice_cols(c.query_width() + c.kv_width(), c.kv_width()),
          .gate = both.slice_cols(0, c.mlp_width),
          .up = both.slice_cols(c.mlp_width, c.mlp_width),
          .branch = branch.slice_rows(0, branch.data == nullptr ? 0 : rows),
          .matmul_scratch = matmul_scratch};
}

namespace {

/// hidden += the output of the linear map, or with a norm that of the norm.
void add_branch(const TextConfig& c, const ActivationView& input, const Linear& linear, const float* norm,
                const LayerRows& rows, DeviceView<float> hidden, Queue& q) {
  const bool adds = norm == nullptr;
  matmul({.input = input,
          .weights = {linear.weight},
          .biases = {linear.bias},
          .outputs = {adds ? hidden : rows.branch},
          .accumulate = adds,
          .scratch = rows.matmul_scratch},
         q);
  if (adds) return;
  rmsnorm({.input = rows.branch, .weight = norm, .epsilon = c.epsilon, .output = hidden, .accumulate = true}, q);
}

}  // namespace

void project_qkv(const TextConfig& c, const TextLayer& w, DeviceView<const float> hidden, const LayerRows& rows,
                 Queue& q) {
  norm_matmul({.input = hidden,
               .norm_weight = w.attention_norm,
               .epsilon = c.epsilon,
               .normed = rows.normed,
               .count = 3,
               .weights = {w.query.weight, w.key.weight, w.value.weight},
               .biases = {w.query.bias, w.key.bias, w.value.bias},
               .outputs = {rows.query, rows.key, rows.value},
               .scratch = rows.matmul_scratch},
              q);
  if (w.query_norm == nullptr) return;
  normalise_heads({.query = rows.query,
                   .key = rows.key,
                   .query_weight = w.query_norm,
                   .key_weight = w.key_norm,
                   .head_dim = c.head_dim,
                   .epsilon = c.epsilon},
                  q);
}

void add_attention_output(const TextConfig& c, const TextLayer& w, const LayerRows& rows, DeviceView<float> hidden,
                          Queue& q) {
  add_branch(c, rows.mixed, w.attention_output, w.attention_output_norm, rows, hidden, q);
}

void add_mlp(const TextConfig& c, const TextLayer& w, const LayerRows& rows, DeviceView<float> hidden, Queue& q) {
  gated_matmul({.input = hidden,
                .norm_weight = w.mlp_norm,
                .epsilon = c.epsilon,
                .normed = rows.normed,
                .gate_weight = w.mlp_gate.weight,
                .up_weight = w.mlp_up.weight,
                .gate_bias = w.mlp_gate.bias,
                .up_bias = w.mlp_up.bias,
                .gate = rows.gate,
                .up = rows.up,
                .activation = c.architecture->gate,
                .scratch = rows.matmul_scratch},
               q);
  add_branch(c, rows.gate, w.mlp_down, w.mlp_output_norm, rows, hidden, q);
}

}  // namespace ocellus
