#include "mm/tower/tower_rows.h"

#include <array>
#include <cmath>

#include "kernels/linear/elementwise.h"
#include "kernels/linear/rmsnorm.h"

namespace ocellus {
namespace {

void clamp(const BoundedLinear::Bounds& bounds, const ActivationView& rows, Queue& q) {
  if (bounds.used()) clamp_rows({.values = rows, .low = bounds.low, .high = bounds.high}, q);
}

DeviceView<float> floats(const ActivationView& rows) { return {rows.row(0), rows.rows, rows.cols, rows.stride}; }

}  // namespace

void HeadRows::normalise(const float* query_weight, const float* key_weight) const {
  if (pass.plans()) return;
  const float epsilon = pass.config().epsilon;
  if (query.rows > 0)
    rmsnorm({.input = query, .weight = query_weight, .epsilon = epsilon, .output = query}, pass.queue());
  if (key.rows > 0) rmsnorm({.input = key, .weight = key_weight, .epsilon = epsilon, .output = key}, pass.queue());
}

/// Attention divides all the same: queries are longer by as much.
void HeadRows::normalise_each(const float* query_weight, const float* key_weight) const {
  if (pass.plans()) return;
  const int32_t length = pass.config().head_dim();
  normalise_heads({.query = query,
                   .key = key,
                   .value = value,
                   .query_weight = query_weight,
                   .key_weight = key_weight,
                   .query_scale = std::sqrt(static_cast<float>(length)),
                   .head_dim = length,
                   .epsilon = pass.config().epsilon},
                  pass.queue());
}

void HeadRows::rotate() const {
  if (pass.plans()) return;
  for (const ActivationView& rows : {query, key})
    if (rows.rows > 0)
      ocellus::rotate({.values = rows,
                       .head_dim = pass.config().head_dim(),
                       .params = pass.rope(),
                       .angles = pass.scratch().angles.slice_rows(first, rows.rows)},
                      pass.queue());
}

/// Maps whose inputs have bounds of their own read rows that are normalised once more.
void HiddenRows::run_maps(const NormWeights& norm, std::span<const MapTo> maps, Activation activation) const {
  Queue& q = pass_.queue();
  for (size_t i = 0; i < maps.size();) {
    MatmulArgs args = {
        .input = pass_.normed(count_), .count = 0, .activation = activation, .scratch = pass_.op_scratch()};
    apply_norm(norm, pass_.config().epsilon, pass_.hidden(first_, count_), args.input, q);
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

void HiddenRows::map(const NormWeights& norm, const BoundedLinear& up, Activation activation) {
  const VisionConfig& c = pass_.config();
  result_ = pass_.wide(count_, c.mlp_width);
  if (pass_.plans()) return pass_.plan_product(count_, c.width, c.mlp_width);
  run_maps(norm, std::array<MapTo, 1>{{{up, result_}}}, activation);
}

/// Rows of f16 start on 16 bytes. The gated rows are in the gate's place.
void HiddenRows::map_gated(const NormWeights& norm, const BoundedLinear& gate, const BoundedLinear& up,
                           Activation activation) {
  const VisionConfig& c = pass_.config();
  const int64_t each = round_up(int64_t{c.mlp_width}, int64_t{8});
  const ActivationView both = pass_.wide(count_, 2 * each);
  result_.cols = c.mlp_width;
  if (pass_.plans()) return pass_.plan_product(count_, c.width, c.mlp_width);
  result_ = both.slice_cols(0, c.mlp_width);
  const ActivationView other = both.slice_cols(each, c.mlp_width);
  run_maps(norm, std::array<MapTo, 2>{{{gate, result_}, {up, other}}}, Activation::kNone);
  gated_activation({.gate = result_, .up = other, .activation = activation}, pass_.queue());
}

void HiddenRows::map_heads(const VisionLayer& w, const HeadRows& heads) const {
  if (pass_.plans()) return pass_.plan_product(count_, pass_.config().width, pass_.config().width);
  const MapTo maps[] = {{w.query, heads.query}, {w.key, heads.key}, {w.value, heads.value}};
  const std::span<const MapTo> all(maps);
  run_maps(w.attention_norm,
           heads.query.rows == 0 ? all.last(2)
           : heads.key.rows == 0 ? all.first(1)
                                 : all,
           Activation::kNone);
}

void HiddenRows::run_last_map(const BoundedLinear& map, const ActivationView& output, bool adds) const {
  if (pass_.plans()) return pass_.plan_product(count_, result_.cols, pass_.config().width);
  clamp(map.input, result_, pass_.queue());
  matmul({.input = result_,
          .weights = {map.weight},
          .biases = {map.bias},
          .outputs = {output},
          .accumulate = adds,
          .scratch = pass_.op_scratch()},
         pass_.queue());
  if (!adds) clamp(map.output, output, pass_.queue());
}

void HiddenRows::add(const BoundedLinear& map) const { run_last_map(map, pass_.hidden(first_, count_), true); }

void HiddenRows::add_scaled(const BoundedLinear& map, const float* scale) const {
  run_last_map(map, room_, false);
  if (pass_.plans()) return;
  add_scaled_rows({.values = pass_.hidden(first_, count_), .addend = room_, .scale = scale}, pass_.queue());
}

void HiddenRows::add_normalised(const BoundedLinear& map, const float* weight) const {
  const DeviceView<float> branch = pass_.branch(count_);
  run_last_map(map, branch, false);
  if (pass_.plans()) return;
  rmsnorm({.input = branch,
           .weight = weight,
           .epsilon = pass_.config().epsilon,
           .output = pass_.hidden(first_, count_),
           .accumulate = true},
          pass_.queue());
}

/// The next columns of a block's rows, which lie one after the other.
ActivationView JoinedRows::take(int64_t cols) {
  const ActivationView all = pass_.wide(1, rows_.rows * (taken_ + cols));
  const int64_t first = rows_.rows * taken_;
  taken_ += cols;
  if (pass_.plans()) return {nullptr, rows_.rows, cols, cols, all.type};
  return {all.slice_cols(first, 0).data, rows_.rows, cols, cols, all.type};
}

void JoinedRows::standardise(float factor, const float* bias, const float* scale) const {
  if (pass_.plans() || scale == nullptr) return;
  standardise_rows({.values = floats(rows_), .factor = factor, .bias = bias, .scale = scale}, pass_.queue());
}

void JoinedRows::normalise(const NormWeights& norm, float epsilon) {
  const ActivationView joined = rows_;
  rows_ = take(joined.cols);
  if (!pass_.plans()) apply_norm(norm, epsilon, floats(joined), rows_, pass_.queue());
}

void JoinedRows::map(const Linear& map, int64_t width, Activation activation) {
  const ActivationView from = rows_;
  rows_ = take(width);
  if (pass_.plans()) return pass_.plan_product(from.rows, from.cols, width);
  matmul({.input = from,
          .weights = {map.weight},
          .biases = {map.bias},
          .outputs = {rows_},
          .activation = activation,
          .scratch = pass_.op_scratch()},
         pass_.queue());
}

void JoinedRows::write(const Linear& map) const {
  if (pass_.plans()) return pass_.plan_product(rows_.rows, rows_.cols, pass_.config().output_width);
  matmul(
      {.input = rows_, .weights = {map.weight}, .biases = {map.bias}, .outputs = {out_}, .scratch = pass_.op_scratch()},
      pass_.queue());
}

}  // namespace ocellus
