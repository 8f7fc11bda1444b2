#include "runtime/models/text_layer.h"

#include <algorithm>

#include "kernels/linear/elementwise.h"
#include "kernels/linear/matmul.h"
#include "kernels/linear/norm_matmul.h"
#include "kernels/linear/rmsnorm.h"
#include "kernels/rows/convert_rows.h"
#include "kernels/rows/gather_rows.h"

namespace ocellus {

Status LayerScratch::lay_out(const TextConfig& c, int64_t rows, const Others& others, const DeviceTraits& device,
                             Phase phase, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  const ActivationType type = device.activations();
  const int64_t heads = int64_t{c.query_heads} * c.longest_head(), kv = int64_t{c.kv_heads} * c.longest_head();
  const int64_t widest = std::max<int64_t>(c.width, heads), mlp = c.widest_mlp();
  const int64_t tallest = std::max<int64_t>({widest, mlp, others.outputs});
  const int64_t bytes = std::max({matmul_scratch_bytes(rows, widest, tallest, device),
                                  matmul_scratch_bytes(rows, mlp, c.width, device), others.op_bytes});
  OCELLUS_TRY(take_activations(sink, "normed or mixed", kLife, phase, type, rows, widest, &normed_or_mixed));
  const int64_t projected = std::max<int64_t>(heads + 2 * kv, c.local.convolve() ? int64_t{3} * c.width : 0);
  OCELLUS_TRY(take_activations(sink, "query, key, value", kLife, phase, type, rows, projected, &qkv));
  const bool gated = c.architecture->has_gate;
  OCELLUS_TRY(
      take_activations(sink, gated ? "gate and up" : "MLP", kLife, phase, type, rows, gated ? 2 * mlp : mlp, &gate_up));
  if (c.architecture->has_branch_norms)
    OCELLUS_TRY(take_rows(sink, "branch output", kLife, phase, rows, c.width, &branch));
  return take_rows(sink, others.op_bytes > 0 ? "matmul or attention" : "matmul", kLife, phase, 1, bytes,
                   &matmul_scratch);
}

LayerRows LayerScratch::view(const TextConfig& c, int32_t layer, int64_t rows) const {
  const ActivationView all = qkv.slice_rows(0, rows);
  const ActivationView both = gate_up.slice_rows(0, rows);
  const int64_t queries = c.query_width(layer), kv = c.kv_width(layer), mlp = c.mlp_width_of(layer);
  return {.normed = {normed_or_mixed.data, rows, c.width, c.width, normed_or_mixed.type},
          .mixed = {normed_or_mixed.data, rows, queries, queries, normed_or_mixed.type},
          .query = all.slice_cols(0, queries),
          .key = all.slice_cols(queries, kv),
          .value = all.slice_cols(queries + kv, kv),
          .gate = both.slice_cols(0, mlp),
          .up = both.slice_cols(mlp, c.architecture->has_gate ? mlp : 0),
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

void project_qkv(const TextConfig& c, int32_t layer, const TextLayer& w, DeviceView<const float> hidden,
                 const LayerRows& rows, Queue& q) {
  const bool shares = c.shares(layer);
  norm_matmul({.input = hidden,
               .norm_weight = w.attention_norm,
               .epsilon = c.epsilon,
               .normed = rows.normed,
               .count = shares ? 1 : 3,
               .weights = {w.query.weight, w.key.weight, w.value.weight},
               .biases = {w.query.bias, w.key.bias, w.value.bias},
               .outputs = {rows.query, rows.key, rows.value},
               .scratch = rows.matmul_scratch},
              q);
  if (c.architecture->normalise_heads != nullptr && !c.convolves(layer))
    c.architecture->normalise_heads(c, layer, w, rows, q);
}

ShortConv convolution_of(const TextConfig& c, const TextLayer& w, const LayerRows& rows) {
  return {.gate = rows.query,
          .x = rows.value,
          .output_gate = rows.key,
          .weights = w.convolution,
          .taps = c.local.window,
          .output = rows.mixed};
}

void normalise_queries_and_keys(const TextConfig& c, int32_t layer, const TextLayer& w, const LayerRows& rows,
                                Queue& q) {
  normalise_heads({.query = rows.query,
                   .key = c.shares(layer) ? ActivationView() : rows.key,
                   .query_weight = w.query_norm,
                   .key_weight = w.key_norm,
                   .head_dim = c.head_dim_of(layer),
                   .epsilon = c.epsilon},
                  q);
}

/// Attention divides the scores all the same: queries are longer by as much.
void normalise_all_heads(const TextConfig& c, int32_t layer, const TextLayer& w, const LayerRows& rows, Queue& q) {
  const int32_t length = c.head_dim_of(layer);
  NormaliseHeadsArgs heads = {.query = rows.query,
                              .query_weight = w.query_norm,
                              .key_weight = w.key_norm,
                              .query_scale = std::sqrt(static_cast<float>(length)),
                              .head_dim = length,
                              .epsilon = c.epsilon};
  if (!c.shares(layer)) {
    heads.key = rows.key;
    heads.value = rows.value;
  }
  normalise_heads(heads, q);
}

void add_attention_output(const TextConfig& c, const TextLayer& w, const LayerRows& rows, DeviceView<float> hidden,
                          Queue& q) {
  add_branch(c, rows.mixed, w.attention_output, w.attention_output_norm, rows, hidden, q);
}

void add_mlp(const TextConfig& c, const TextLayer& w, const LayerRows& rows, DeviceView<float> hidden, Queue& q) {
  if (c.architecture->has_gate)
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
                  .activation = c.architecture->activation,
                  .scratch = rows.matmul_scratch},
                 q);
  else
    norm_matmul({.input = hidden,
                 .norm_weight = w.mlp_norm,
                 .epsilon = c.epsilon,
                 .normed = rows.normed,
                 .weights = {w.mlp_up.weight},
                 .biases = {w.mlp_up.bias},
                 .outputs = {rows.gate},
                 .activation = c.architecture->activation,
                 .scratch = rows.matmul_scratch},
                q);
  add_branch(c, rows.gate, w.mlp_down, w.mlp_output_norm, rows, hidden, q);
}

namespace {

/// Rows whose inputs of all layers are computed together: these are wide.
constexpr int64_t kInputRows = 64;

}  // namespace

Status LayerInputScratch::lay_out(const TextConfig& c, int64_t rows, const DeviceTraits& device, Phase phase,
                                  RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  if (c.layer_input_width == 0) return {};
  const int64_t all = int64_t{c.layer_count} * c.layer_input_width, block = std::min(rows, kInputRows);
  OCELLUS_TRY(take_activations(sink, "inputs of layers", kLife, phase, device.activations(), rows, all, &inputs));
  OCELLUS_TRY(take_rows(sink, "inputs of layers by token", kLife, phase, block, all, &mixed));
  OCELLUS_TRY(take_rows(sink, "inputs of layers by row", kLife, phase, block, all, &mapped));
  return take_rows(sink, "product of these", kLife, phase, 1, matmul_scratch_bytes(block, c.width, all, device),
                   &op_scratch);
}

/// The product's factor 1 / sqrt(D) stands in the epsilon of its norm, which is the same for any other factor.
void find_layer_inputs(const TextModel& m, const RowTokens& tokens, DeviceView<const float> embedded,
                       const LayerInputScratch& s, Queue& q) {
  const TextConfig& c = m.config;
  const int64_t each = c.layer_input_width;
  for (int64_t first = 0; first < embedded.rows; first += kInputRows) {
    const int64_t count = std::min(kInputRows, embedded.rows - first);
    const DeviceView<float> mixed = s.mixed.slice_rows(0, count), mapped = s.mapped.slice_rows(0, count);
    gather_rows({.ids = tokens.ids + first * tokens.stride,
                 .id_stride = tokens.stride,
                 .count = count,
                 .table = m.inputs.table,
                 .scale = std::sqrt(static_cast<float>(each)),
                 .skipped_as = 0,
                 .output = mixed},
                q);
    matmul({.input = embedded.slice_rows(first, count),
            .weights = {m.inputs.map},
            .outputs = {mapped},
            .scratch = s.op_scratch},
           q);
    const DeviceView<float> parts(mapped.data, count * c.layer_count, each), sums(mixed.data, parts.rows, each);
    rmsnorm({.input = parts,
             .weight = m.inputs.norm,
             .epsilon = c.epsilon * static_cast<float>(c.width),
             .output = sums,
             .accumulate = true,
             .sum_scale = std::sqrt(0.5f)},
            q);
    convert_rows({.from = mixed, .to = s.inputs.slice_rows(first, count)}, q);
  }
}

void add_layer_input(const TextConfig& c, const TextLayer& w, const ActivationView& inputs, const LayerRows& rows,
                     DeviceView<float> hidden, Queue& q) {
  const ActivationView gate = rows.gate.slice_cols(0, c.layer_input_width);
  matmul({.input = hidden, .weights = {w.input.gate}, .outputs = {gate}, .scratch = rows.matmul_scratch}, q);
  gated_activation({.gate = gate, .up = inputs, .activation = c.architecture->activation}, q);
  matmul({.input = gate, .weights = {w.input.map}, .outputs = {rows.branch}, .scratch = rows.matmul_scratch}, q);
  rmsnorm({.input = rows.branch,
           .weight = w.input.norm,
           .epsilon = c.epsilon,
           .output = hidden,
           .accumulate = true,
           .sum_scale = w.input.scale},
          q);
}

}  // namespace ocellus
