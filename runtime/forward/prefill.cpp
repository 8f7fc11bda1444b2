// The plain path of a prefill, from bottom to top: project, rotate, attend, add the output and the MLP, store. Layers
// with a convolution have it in place of the second, the third and the last.
#include "runtime/forward/prefill.h"

#include <algorithm>

#include "kernels/attention/attend_rows.h"
#include "kernels/linear/elementwise.h"
#include "kernels/rows/rope.h"
#include "kernels/rows/store_kv.h"

namespace ocellus {
namespace {

void find_angles(const LayerPass& pass, int64_t row_count, Queue& q) {
  const PrefillScratch& s = pass.scratch;
  const TextConfig& c = pass.config();
  s.rows.positions.find_angles(c.rope, s.rows.angles.slice_rows(0, row_count), q);
  if (s.window.on()) s.rows.positions.find_angles(c.local.rope, s.window.angles.slice_rows(0, row_count), q);
  if (s.extra.after_angles != nullptr) s.extra.after_angles(pass, q);
}

/// Computes facts of the rows that all layers read.
void begin_rows(const LayerPass& pass, DeviceView<const float> hidden, Queue& q) {
  const PrefillScratch& s = pass.scratch;
  find_angles(pass, hidden.rows, q);
  if (s.layer_inputs.on()) find_layer_inputs(pass.model, {s.rows.tokens.device.data}, hidden, s.layer_inputs, q);
}

void project(const LayerPass& pass, const RowBlock& block, Queue& q) {
  const TextConfig& c = pass.config();
  const RowPositions& positions = pass.scratch.rows.positions;
  project_qkv(c, pass.layer, pass.weights(), block.hidden, block.rows, q);
  if (c.temperature.used())
    temper_queries({.values = block.rows.query,
                    .positions = positions.values.device.data + block.first * positions.coordinates,
                    .position_stride = positions.coordinates,
                    .temperature = c.temperature},
                   q);
}

/// Rotates queries and keys, and puts keys and values where attention reads them.
void rotate(const LayerPass& pass, const RowBlock& block, Queue& q) {
  const TextConfig& c = pass.config();
  const LayerRows& rows = block.rows;
  const PrefillScratch& s = pass.scratch;
  const RopeParams& rope = c.rope_of(pass.layer);
  const DeviceView<const float>& angles = block.angles;
  const int32_t head_dim = c.head_dim_of(pass.layer);
  ocellus::rotate({.values = rows.query, .head_dim = head_dim, .params = rope, .angles = angles}, q);
  if (pass.shares()) return;
  ocellus::rotate({.values = rows.key, .head_dim = head_dim, .params = rope, .angles = angles}, q);
  round_kv({.keys = rows.key,
            .values = rows.value,
            .first = block.first,
            .places = pass.is_local() ? s.window.places_from(block.first) : nullptr,
            .out = pass.own_rows()},
           q);
}

/// True if the keys of all rows are known before the first block attends. Recordings know nothing of a chunk's rows.
bool sees_ahead(const LayerPass& pass, const Queue& q) {
  return pass.scratch.window.mutual() && (q.traits().is_cuda() || pass.plan.sees_ahead);
}

void attend(const LayerPass& pass, const RowBlock& block, Queue& q) {
  const PrefillScratch& s = pass.scratch;
  const TextConfig& c = pass.config();
  if (pass.is_local()) return attend_window(pass, block, q);
  attend_rows({.query = block.rows.query,
               .query_heads = c.query_heads,
               .rows = pass.own_rows(),
               .first_row = block.first,
               .row_count = known_rows(pass, block, q),
               .bounds = block.bounds,
               .row_bias = s.rows.bias.device.data,
               .past = {.runs = s.past.runs.device.data,
                        .count = static_cast<int32_t>(pass.plan.past_tiles),
                        .layer = s.limits.kv.layer(pass.cache_layer()),
                        .rope = c.rope,
                        .calibration = s.compress.policy.calibration},
               .calibration_scratch = s.past.copies.calibration.slice_rows(0, block.hidden.rows),
               .output = block.rows.mixed,
               .scratch = block.rows.matmul_scratch},
              q);
}

/// The rows of a picture's inner layers join those of the first layers (DeepStack); see PromptChunk::inputs.
void add_inner_rows(const LayerPass& pass, const RowBlock& block, Queue& q) {
  const DeviceView<float>& hidden = block.hidden;
  const float* const first = hidden.data + (pass.layer + 1) * hidden.cols;
  if (pass.layer < pass.config().deepstack_layers)
    add_rows({.values = hidden, .addend = {first, hidden.rows, hidden.cols, hidden.stride}}, q);
}

void add_input(const LayerPass& pass, const RowBlock& block, Queue& q) {
  if (pass.scratch.layer_inputs.on())
    add_layer_input(pass.config(), pass.weights(), block.input, block.rows, block.hidden, q);
}

}  // namespace

void enqueue_block(const LayerPass& pass, const RowBlock& block, Queue& q) {
  project(pass, block, q);
  if (pass.convolves()) {
    convolve(pass, block, q);
  } else {
    rotate(pass, block, q);
    const ExtraSteps& extra = pass.scratch.extra;
    if (const auto step = pass.own_step(extra.in_block)) step(pass, block, q);
    if (const auto step = pass.step(extra.before_attention)) step(pass, block, q);
    if (pass.layer < pass.plan.known_layers) return;  // its output is known
    attend(pass, block, q);
  }
  add_attention_output(pass.config(), pass.weights(), block.rows, block.hidden, q);
  add_mlp(pass.config(), pass.weights(), block.rows, block.hidden, q);
  add_input(pass, block, q);
  add_inner_rows(pass, block, q);
}

Status prefill_rows(const TextModel& model, DeviceView<float> hidden, const PrefillPlan& plan, const PrefillScratch& s,
                    const StopSignal* stop, Queue& q) {
  const int32_t layers = std::min(model.config.layer_count, plan.most_layers);
  for (int32_t layer = plan.first_layer; layer < layers && q.ok(); ++layer) {
    const LayerPass pass{model, plan, s, layer};
    if (s.extra.source != nullptr) s.extra.source->write_rows(pass, hidden, q);
    if (const auto step = pass.step(s.extra.before_layer)) step(pass, q);
    enqueue_layer(pass, hidden, stop, q);
    if (const auto step = pass.step(s.extra.after_layer)) step(pass, q);
  }
  return q.status();
}

int64_t known_rows(const LayerPass& pass, const RowBlock& block, const Queue& q) {
  return sees_ahead(pass, q) ? block.chunk_rows : block.first + block.hidden.rows;
}

RowBlock block_from(const LayerPass& pass, DeviceView<float> hidden, int64_t first) {
  const PrefillScratch& s = pass.scratch;
  const bool local = pass.is_local();
  const int64_t count = std::min(s.limits.block_rows, hidden.rows - first);
  LayerRows rows = s.layer.view(pass.config(), pass.layer, count);
  const ActivationView& all_queries = s.compress.all_queries;
  if (all_queries.data != nullptr && !local) rows.query = all_queries.slice_rows(first, count);
  return {.first = first,
          .chunk_rows = hidden.rows,
          .hidden = hidden.slice_rows(first, count),
          .rows = rows,
          .angles = (local ? s.window.angles : s.rows.angles).slice_rows(first, count),
          .bounds = local ? s.window.bounds(first) : s.window.global_bounds(first),
          .input = s.layer_inputs.on() ? s.layer_inputs.of_layer(pass.config(), pass.layer, first, count)
                                       : ActivationView()};
}

void prepare_blocks(const LayerPass& pass, DeviceView<float> hidden, Queue& q) {
  for (int64_t first = 0; first < hidden.rows;) {
    const RowBlock block = block_from(pass, hidden, first);
    project(pass, block, q);
    rotate(pass, block, q);
    first += block.hidden.rows;
  }
}

void begin_layer(const LayerPass& pass, DeviceView<float> hidden, Queue& q) {
  if (pass.layer == 0) begin_rows(pass, hidden, q);
  if (pass.is_local() && !pass.shares() && !pass.convolves()) copy_window(pass, q);
  if (hidden.rows > pass.scratch.limits.block_rows && sees_ahead(pass, q)) prepare_blocks(pass, hidden, q);
  if (const auto step = pass.own_step(pass.scratch.extra.ahead_of_blocks)) step(pass, hidden, q);
}

bool enqueue_blocks(const LayerPass& pass, DeviceView<float> hidden, int64_t first, int64_t end, const StopSignal* stop,
                    Queue& q) {
  while (first < end) {
    if (q.stopped(stop)) return false;
    const RowBlock block = block_from(pass, hidden, first);
    enqueue_block(pass, block, q);
    first += block.hidden.rows;
  }
  return true;
}

void end_layer(const LayerPass& pass, int64_t rows, Queue& q) {
  if (pass.shares() || pass.convolves()) return;
  if (pass.is_local()) return store_window(pass, rows, q);
  const KvSlot* const slots = pass.scratch.rows.slots.device.data;
  store_kv({.rows = pass.own_rows(), .count = rows, .slots = slots, .layer = pass.cache_layer()}, q);
}

/// Layers after the last with keys and values matter for the row alone that is answered.
void enqueue_layer(const LayerPass& pass, DeviceView<float> hidden, const StopSignal* stop, Queue& q) {
  if (pass.runs_last_row()) return enqueue_last_row(pass, hidden, q);
  const int64_t first = pass.shares() ? std::max<int64_t>(hidden.rows - 1, 0) : 0;
  begin_layer(pass, hidden, q);
  if (enqueue_blocks(pass, hidden, first, hidden.rows, stop, q)) end_layer(pass, hidden.rows, q);
}

}  // namespace ocellus
