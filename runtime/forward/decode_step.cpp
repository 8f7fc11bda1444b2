#include "runtime/forward/decode_step.h"

#include <algorithm>
#include <bit>

#include "kernels/attention/attend_step.h"
#include "kernels/linear/elementwise.h"
#include "kernels/linear/matmul.h"
#include "kernels/linear/norm_matmul.h"
#include "kernels/rows/gather_rows.h"
#include "kernels/sampling/sample.h"

namespace ocellus {
namespace {

int64_t power_of_two(int64_t rows) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows))); }

/// Stride of a field of StepRow, in int32.
constexpr int64_t kStepStride = sizeof(StepRow) / sizeof(int32_t);
static_assert(sizeof(StepRow) % sizeof(int32_t) == 0);

/// Makes a queue's ops batch-invariant, if the step is, while it lives: prompts do without.
class InvariantOps {
 public:
  InvariantOps(Queue& queue, bool on) : queue_(queue) { queue_.set_batch_invariant(on); }
  ~InvariantOps() { queue_.set_batch_invariant(false); }
  InvariantOps(const InvariantOps&) = delete;
  InvariantOps& operator=(const InvariantOps&) = delete;

 private:
  Queue& queue_;
};

/// Samples from the logits. Without `advance` the rows stay where they are.
void sample_rows(int64_t rows, bool advance, const StepScratch& s, Queue& q) {
  const TraceRange range(s.trace, "sample");
  const StepSampling& sampling = s.sampling;
  const DeviceView<float> logits = sampling.logits.slice_rows(0, rows);
  if (sampling.notes.data != nullptr)
    list_top_tokens({.logits = logits,
                     .steps = s.steps.device.data,
                     .tops = sampling.tops.data,
                     .top_stride = sampling.tops.cols,
                     .notes = sampling.notes.data},
                    q);
  sample_tokens({.logits = logits,
                 .steps = s.steps.device.data,
                 .tiles = advance ? s.runs.all.device.data : nullptr,
                 .tiles_per_row = s.runs.all.device.cols,
                 .results = sampling.results.data,
                 .result_stride = sampling.results.cols,
                 .forced = sampling.forced.data,
                 .forced_stride = sampling.forced.cols,
                 .masks = sampling.masks.data,
                 .mask_stride = sampling.masks.cols,
                 .notes = sampling.notes.data,
                 .scratch = sampling.scratch},
                q);
}

/// The tiles that the rows of a step see in a layer.
StepTiles tiles_of(const TextConfig& c, const StepShape& shape, const StepScratch& s, int32_t layer) {
  StepTiles tiles = {.steps = s.steps.device.data,
                     .runs = s.runs.all.device.data,
                     .per_row = s.runs.all.device.cols,
                     .most = shape.most_tiles,
                     .stored = c.shares(layer),
                     .together = s.limits.guesses && shape.rows > 1};
  if (!c.local.has(layer)) return tiles;
  tiles.runs = s.runs.local.device.data;
  tiles.per_row = s.runs.local.device.cols;
  tiles.most = most_window_tiles(c.local.window);
  tiles.window = c.local.window;
  tiles.ring_starts = s.runs.ring_starts.device.data;
  return tiles;
}

HeadShape heads_of(const TextConfig& c, int32_t layer) { return {c.query_heads, c.kv_heads, c.head_dim_of(layer)}; }

/// A layer in the cache of its kind.
KvLayer cached_layer(const TextConfig& c, const StepScratch& s, int32_t layer) {
  const int32_t index = c.cache_layer(layer);
  return c.local.has(layer) ? KvLayer{.index = index} : s.limits.kv.layer(index);
}

/// The attention of a step's rows in a layer, with rope's angles, or its convolution.
void mix(const TextConfig& c, const TextLayer& w, const StepShape& shape, const StepScratch& s, const LayerRows& rows,
         DeviceView<const float> angles, int32_t layer, Queue& q) {
  const StepTiles tiles = tiles_of(c, shape, s, layer);
  if (c.convolves(layer))
    return short_conv_step({.conv = convolution_of(c, w, rows), .tiles = tiles, .layer = c.cache_layer(layer)}, q);
  attend_step({.query = rows.query,
               .key = rows.key,
               .value = rows.value,
               .heads = heads_of(c, layer),
               .rope = c.rope_of(layer),
               .angles = angles,
               .tiles = tiles,
               .layer = cached_layer(c, s, layer),
               // In a recorded step only the sampler at its end writes steps, nothing writes tiles, and the slots that
               // attention reads were filled before: the new one is stored, but not read from the cache. Not so where
               // slots are dropped for tokens, nor with guesses.
               .cache_settled = q.on_cuda() && q.cuda()->capturing() && s.dropper == nullptr && !tiles.together,
               .calibration = s.limits.calibration,
               .output = rows.mixed,
               .scratch = s.attend_scratch},
              q);
}

TemperQueriesArgs tempered(const TextConfig& c, const StepRow* steps, const ActivationView& query) {
  return {.values = query, .positions = &steps->position, .position_stride = kStepStride, .temperature = c.temperature};
}

}  // namespace

int64_t most_step_rows(int64_t sessions, const DeviceTraits& device) {
  constexpr int64_t kUnit = 64;
  return device.is_cuda() ? std::min(power_of_two(sessions), round_up(sessions, kUnit)) : sessions;
}

int64_t step_rows(int64_t rows, int64_t sessions, const DeviceTraits& device) {
  return recorded_rows(rows, most_step_rows(sessions, device), device);
}

int64_t recorded_rows(int64_t rows, int64_t most, const DeviceTraits& device) {
  return device.is_cuda() ? std::min(power_of_two(rows), most) : rows;
}

Status StepRuns::lay_out(const StepLimits& limits, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  const int64_t ring_tiles = limits.kv.local.slots / kTileSlots;
  OCELLUS_TRY(all.lay_out(sink, "runs", kLife, kDecodePhase, limits.rows, limits.tiles_per_session));
  if (ring_tiles == 0) return {};
  OCELLUS_TRY(local.lay_out(sink, "runs of local layers", kLife, kDecodePhase, limits.rows, ring_tiles));
  return ring_starts.lay_out(sink, "starts of rings", kLife, kDecodePhase, 1, limits.rows);
}

void StepRuns::upload(int64_t rows, Queue& queue) const {
  queue.upload(all, rows * all.host.cols);
  queue.upload(local, rows * local.host.cols);
  queue.upload(ring_starts, has_rings() ? rows : 0);
}

Status StepSampling::lay_out(const StepLimits& limits, int32_t vocabulary, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  constexpr Phase kPhase = kDecodePhase;
  OCELLUS_TRY(take_rows(sink, "tokens", kLife, kPhase, kResultSteps, limits.rows, &results));
  OCELLUS_TRY(take_rows(sink, "forced tokens", kLife, kPhase, kResultSteps, limits.rows, &forced));
  if (limits.has_masks)
    OCELLUS_TRY(take_rows(sink, "masks of tokens", kLife, kPhase, limits.rows, mask_words(vocabulary), &masks));
  if (!limits.lists_tops) return {};
  OCELLUS_TRY(take_rows(sink, "top tokens", kLife, kPhase, kResultSteps, limits.rows, &tops));
  return take_rows(sink, "logits of penalties", kLife, kPhase, 1, limits.rows, &notes);
}

Status StepScratch::lay_out(const TextConfig& c, const StepLimits& given, const DeviceTraits& device, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  constexpr Phase kPhase = kDecodePhase;
  limits = given;
  const KvShape& kv = limits.kv;
  const int64_t rows = limits.rows, tiles = limits.tiles_per_session, slots = limits.slots_per_session;
  OCELLUS_TRY(steps.lay_out(sink, "steps", kLife, kPhase, 1, rows));
  OCELLUS_TRY(runs.lay_out(limits, sink));
  OCELLUS_TRY(sampling.lay_out(limits, c.vocabulary, sink));
  OCELLUS_TRY(take_rows(sink, "hidden", kLife, kPhase, rows, c.width, &hidden));
  OCELLUS_TRY(take_rows(sink, "angles", kLife, kPhase, rows, c.rope.rotated, &angles));
  if (c.has_windows())
    OCELLUS_TRY(take_rows(sink, "angles of local layers", kLife, kPhase, rows, c.local.rope.rotated, &local_angles));
  OCELLUS_TRY(layer.lay_out(c, rows, {.outputs = c.vocabulary}, device, kPhase, sink));
  OCELLUS_TRY(inputs.lay_out(c, rows, device, kPhase, sink));
  if (c.sharing.count > 0)
    for (const bool is_local : {false, true})
      OCELLUS_TRY(take_activations(sink, is_local ? "shared keys, values of local layers" : "shared keys, values",
                                   kLife, kPhase, device.activations(), rows,
                                   2 * c.kv_width(c.last_own_layer(is_local)), &shared_kv[is_local ? 1 : 0]));
  OCELLUS_TRY(take_rows(sink, "logits", kLife, kPhase, rows, c.vocabulary, &sampling.logits));
  const int64_t attend_bytes =
      attend_step_scratch_bytes(rows, std::max(slots, kv.local.slots), std::max(tiles, kv.local.slots / kTileSlots),
                                c.query_heads, c.kv_heads, c.longest_head(), kv.format, device);
  OCELLUS_TRY(take_rows(sink, "attention", kLife, kPhase, 1, attend_bytes, &attend_scratch));
  if (dropper != nullptr) OCELLUS_TRY(dropper->lay_out_steps(c, limits, device, sink));
  if (packer != nullptr) OCELLUS_TRY(packer->lay_out_steps(kv, sink));
  return take_rows(sink, "sampler", kLife, kPhase, 1, sample_scratch_bytes(rows, c.vocabulary, device),
                   &sampling.scratch);
}

LayerRows StepScratch::rows_of(const TextConfig& c, int32_t index, int64_t rows) const {
  LayerRows of_layer = layer.view(c, index, rows);
  if (!c.shares(index) && !c.is_shared(index)) return of_layer;
  const ActivationView newest = shared_kv[c.local.has(index) ? 1 : 0].slice_rows(0, rows);
  const int64_t width = c.kv_width(index);
  of_layer.key = newest.slice_cols(0, width);
  of_layer.value = newest.slice_cols(width, width);
  return of_layer;
}

void list_ring(const LocalRing& ring, int64_t row, const StepScratch& s) {
  for (int32_t i = 0; i < ring.tiles(); ++i) s.runs.local.host.row(row)[i] = ring.tile(i);
  s.runs.ring_starts.host.data[row] = static_cast<int32_t>(s.steps.host.data[row].position - ring.rows());
}

void set_step_flag(int32_t* flag, bool value, Queue& q) {
  if (q.on_cuda())
    q.fail(q.cuda()->fill(flag, value ? 1 : 0, sizeof *flag));  // any byte that is not zero
  else
    *flag = value ? 1 : 0;
}

void move_step_row(const StepScratch& s, int64_t from, int64_t to, Queue& q) {
  const auto move = [&](const auto& rows, int64_t values) {
    auto* const data = rows.device.data;
    q.copy(data + to * values, data + from * values, values * static_cast<int64_t>(sizeof *data));
  };
  move(s.steps, 1);
  move(s.runs.all, s.runs.all.device.cols);
  move(s.runs.local, s.runs.local.device.cols);
  if (s.runs.has_rings()) move(s.runs.ring_starts, 1);
}

void enqueue_logits(const TextModel& m, int64_t rows, const StepScratch& s, Queue& q) {
  norm_matmul({.input = s.hidden.slice_rows(0, rows),
               .norm_weight = m.final_norm,
               .epsilon = m.config.epsilon,
               .normed = s.layer.view(m.config, 0, rows).normed,
               .weights = {m.unembedding},
               .outputs = {s.sampling.logits.slice_rows(0, rows)},
               .scratch = s.layer.matmul_scratch},
              q);
  if (m.config.logit_cap > 0) cap_rows({.values = s.sampling.logits.slice_rows(0, rows), .cap = m.config.logit_cap}, q);
}

Status enqueue_forward(const TextModel& m, const StepShape& shape, const StepScratch& s, const StopSignal* stop,
                       Queue& q) {
  const InvariantOps invariant(q, s.limits.batch_invariant);
  const TextConfig& c = m.config;
  const DeviceView<float> hidden = s.hidden.slice_rows(0, shape.rows);
  const DeviceView<float> angles = s.angles.slice_rows(0, shape.rows);
  const DeviceView<float> local_angles = s.local_angles.slice_rows(0, c.has_windows() ? shape.rows : 0);
  const StepRow* steps = s.steps.device.data;

  gather_rows({.ids = &steps->token,
               .id_stride = kStepStride,
               .count = shape.rows,
               .table = m.embedding,
               .scale = c.embedding_scale(),
               .output = hidden},
              q);
  const auto find_angles = [&](const RopeParams& rope, DeviceView<float> out) {
    rope_angles({.positions = &steps->position,
                 .position_stride = kStepStride,
                 .count = shape.rows,
                 .params = rope,
                 .angles = out},
                q);
  };
  if (s.inputs.on()) find_layer_inputs(m, {&steps->token, kStepStride}, hidden, s.inputs, q);
  find_angles(c.rope, angles);
  if (c.has_windows()) find_angles(c.local.rope, local_angles);
  for (int32_t layer = 0; layer < c.layer_count; ++layer) {
    if (q.stopped(stop)) return q.status();
    const TextLayer& w = m.layers[layer];
    const bool is_local = c.local.has(layer);
    const LayerRows rows = s.rows_of(c, layer, shape.rows);
    project_qkv(c, layer, w, hidden, rows, q);
    if (c.temperature.used()) temper_queries(tempered(c, steps, rows.query), q);
    if (s.dropper != nullptr && !is_local && !c.shares(layer)) s.dropper->drop(m, shape, s, rows, angles, layer, q);
    mix(c, w, shape, s, rows, is_local ? local_angles : angles, layer, q);
    add_attention_output(c, w, rows, hidden, q);
    add_mlp(c, w, rows, hidden, q);
    if (s.inputs.on()) add_layer_input(c, w, s.inputs.of_layer(c, layer, 0, shape.rows), rows, hidden, q);
  }
  enqueue_logits(m, shape.rows, s, q);
  return q.status();
}

Status enqueue_sampling(int64_t rows, const StepScratch& s, Queue& q) {
  sample_rows(rows, true, s, q);
  return q.status();
}

Status sample_step(int64_t rows, const StepScratch& s, Queue& q) {
  return q.on_cuda() && !s.samples_apart() ? q.status() : enqueue_sampling(rows, s, q);
}

Status enqueue_first_token(const TextModel& m, int64_t rows, const StepScratch& s, Queue& q) {
  const InvariantOps invariant(q, s.limits.batch_invariant);
  enqueue_logits(m, rows, s, q);
  sample_rows(rows, false, s, q);
  return q.status();
}

}  // namespace ocellus
