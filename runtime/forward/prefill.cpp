#include "runtime/forward/prefill.h"

#include <algorithm>

#include "kernels/attention/attend_rows.h"
#include "kernels/cache/expand_kv.h"
#include "kernels/rows/rope.h"
#include "runtime/policy/eviction_rule.h"

namespace ocellus {
namespace {

/// One layer of a chunk: storage of the chunk's own keys and values, and the cache before the chunk.
struct LayerPass {
  const TextConfig& config;
  const PrefillScratch& scratch;
  const PrefillPlan& plan;
  KvLayerRows rows;
  int32_t layer;
};

/// Blocks overwrite each other's queries, so those that the rule reads are kept.
void keep_observed_queries(const LayerPass& pass, int64_t first, const ActivationView& query, int64_t row_count,
                           Queue& q) {
  const ActivationView& kept = pass.scratch.compress.last_queries;
  const int64_t observed_first = row_count - pass.plan.compress.observed;
  for (int64_t t = std::max(first, observed_first); t < first + query.rows; ++t)
    q.copy(kept.slice_rows(t - observed_first, 1).data, query.slice_rows(t - first, 1).data,
           query.cols * query.value_bytes());
}

/// Returns the queries that the rule reads, wherever a layer has left them.
ActivationView observed_queries(const TextConfig& c, const CompressPlan& plan, const PrefillScratch& s) {
  const CompressScratch& kept = s.compress;
  const int64_t rows = plan.facts.rows;
  if (kept.last_queries.data != nullptr) return kept.last_queries.slice_rows(0, plan.observed);
  const ActivationView all = kept.all_queries.data != nullptr ? kept.all_queries : s.layer.view(c, rows).query;
  return all.slice_rows(rows - plan.observed, plan.observed);
}

/// Prepares queries of chunk rows first.., and their keys and values where attention reads them.
LayerRows prepare_block(const LayerPass& pass, const TextLayer& w, int64_t first, DeviceView<float> hidden, Queue& q) {
  const PrefillScratch& s = pass.scratch;
  const TextConfig& c = pass.config;
  LayerRows rows = s.layer.view(c, hidden.rows);
  if (s.compress.all_queries.data != nullptr) rows.query = s.compress.all_queries.slice_rows(first, hidden.rows);
  const DeviceView<float> angles = s.angles.slice_rows(first, hidden.rows);
  project_qkv(c, w, hidden, rows, q);
  rotate({.values = rows.query, .head_dim = c.head_dim, .params = c.rope, .angles = angles}, q);
  rotate({.values = rows.key, .head_dim = c.head_dim, .params = c.rope, .angles = angles}, q);
  round_kv({.keys = rows.key, .values = rows.value, .first = first, .out = pass.rows}, q);
  return rows;
}

/// Applies the change of the rows in place to the other slots of their images, before any row attends to them.
void carry_layer(const LayerPass& pass, int64_t image_count, Queue& q) {
  const CarryScratch& carry = pass.scratch.carry;
  const ExpandScratch& copies = pass.scratch.expand;
  carry_change({.rows = pass.rows,
                .images = carry.images.device.data,
                .image_count = static_cast<int32_t>(image_count),
                .rows_in_place = carry.rows_in_place.device.data,
                .layer = pass.layer,
                .rope = pass.config.rope,
                .angles = pass.scratch.angles,
                .slot_angles = carry.slot_angles,
                .copies = copies.keys.data == nullptr ? KvLayerRows() : copies.rows(pass.config)},
               q);
}

/// Runs one layer on chunk rows first.., which are prepared.
void run_block(const LayerPass& pass, const TextLayer& w, int64_t first, const LayerRows& rows,
               DeviceView<float> hidden, Queue& q) {
  const PrefillScratch& s = pass.scratch;
  const TextConfig& c = pass.config;
  if (s.compress.last_queries.data != nullptr && pass.plan.compress.lists_rows)
    keep_observed_queries(pass, first, rows.query, pass.plan.compress.facts.rows, q);
  attend_rows({.query = rows.query,
               .query_heads = c.query_heads,
               .rows = pass.rows,
               .first_row = first,
               .row_count = first + hidden.rows,
               .past = {.runs = s.past.device.data,
                        .count = static_cast<int32_t>(pass.plan.past_tiles),
                        .layer = s.kv.layer(pass.layer),
                        .rope = c.rope,
                        .calibration = s.compress.policy.calibration},
               .calibration_scratch = s.expand.calibration.slice_rows(0, hidden.rows),
               .output = rows.mixed,
               .scratch = rows.matmul_scratch},
              q);
  add_attention_output(w, rows, hidden, q);
  add_mlp(c, w, rows, hidden, q);
}

}  // namespace

Status CarryScratch::lay_out(const LinkLimits& limits, int64_t rotated, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  constexpr Phase kPhase = kPrefillPhase;
  OCELLUS_TRY(images.lay_out(sink, "carried images", kLife, kPhase, 1, limits.images));
  OCELLUS_TRY(rows_in_place.lay_out(sink, "rows in place", kLife, kPhase, limits.images, limits.in_place));
  OCELLUS_TRY(positions.lay_out(sink, "slot positions", kLife, kPhase, limits.images, limits.slots + 1));
  return take_rows(sink, "slot angles", kLife, kPhase, limits.images * (limits.slots + 1), rotated, &slot_angles);
}

Status BlendScratch::lay_out(int64_t max_rows, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  OCELLUS_TRY(stored.lay_out(sink, "stored rows", kLife, kPrefillPhase, 1, max_rows));
  OCELLUS_TRY(changes.lay_out(sink, "changes of rows", kLife, kPrefillPhase, 1, max_rows));
  return take_rows(sink, "rows by change", kLife, kPrefillPhase, 1, max_rows, &order);
}

Status PrefillScratch::lay_out(const TextConfig& c, const PrefillLimits& limits, const DeviceTraits& device,
                               RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  constexpr Phase kPhase = kPrefillPhase;
  const int64_t max_rows = limits.compress.rows;
  kv = limits.kv;
  OCELLUS_TRY(positions.lay_out(sink, "positions", kLife, kPhase, 1, max_rows));
  OCELLUS_TRY(slots.lay_out(sink, "slots of rows", kLife, kPhase, 1, max_rows));
  OCELLUS_TRY(past.lay_out(sink, "past runs", kLife, kPhase, 1, limits.past_tiles));
  OCELLUS_TRY(take_rows(sink, "angles", kLife, kPhase, max_rows, c.rope.rotated, &angles));
  OCELLUS_TRY(take_rows(sink, "layer keys", kLife, kPhase, c.kv_heads * max_rows, c.head_dim, &keys));
  OCELLUS_TRY(take_rows(sink, "layer values", kLife, kPhase, c.kv_heads * max_rows, c.head_dim, &values));
  OCELLUS_TRY(layer.lay_out(c, device.block_rows(max_rows), {.op_bytes = attend_rows_scratch_bytes(c.head_dim, device)},
                            device, kPhase, sink));
  OCELLUS_TRY(compress.lay_out(c, limits.compress, device, sink));
  text_alone = limits.links.text_alone;
  if (limits.links.carries) OCELLUS_TRY(carry.lay_out(limits.links, c.rope.rotated, sink));
  if (limits.links.blends) OCELLUS_TRY(blend.lay_out(max_rows, sink));
  if (compress.policy.evicts_answers()) {
    const int64_t pages = blocks_of(max_rows + kPageSlots - 1, kPageSlots);
    OCELLUS_TRY(noted.runs.lay_out(sink, "runs of text", kLife, kPhase, 1, pages));
    OCELLUS_TRY(noted.rows.lay_out(sink, "rows of text", kLife, kPhase, 1, max_rows));
  }
  if (!device.is_cuda() || limits.expanded_tiles == 0) return {};
  const int64_t rows = c.kv_heads * limits.expanded_tiles * kPackedTileSlots;
  OCELLUS_TRY(expand.runs.lay_out(sink, "packed runs", kLife, kPhase, 1, limits.expanded_tiles));
  OCELLUS_TRY(take_rows(sink, "packed keys as f16", kLife, kPhase, rows, c.head_dim, &expand.keys));
  OCELLUS_TRY(take_rows(sink, "packed values as f16", kLife, kPhase, rows, c.head_dim, &expand.values));
  if (!limits.compress.policy.calibration.on) return {};
  return take_rows(sink, "calibration", kLife, kPhase, device.block_rows(max_rows), 2 * int64_t{c.query_heads},
                   &expand.calibration);
}

namespace {

void enqueue_angles(const TextConfig& c, int64_t row_count, const PrefillScratch& s, Queue& q) {
  rope_angles({.positions = s.positions.device.data,
               .count = row_count,
               .params = c.rope,
               .angles = s.angles.slice_rows(0, row_count)},
              q);
  if (s.carry.on())
    rope_angles({.positions = s.carry.positions.device.data,
                 .count = s.carry.slot_angles.rows,
                 .params = c.rope,
                 .angles = s.carry.slot_angles},
                q);
}

}  // namespace

void enqueue_layer(const TextModel& model, int32_t layer, DeviceView<float> hidden, const PrefillPlan& plan,
                   const PrefillScratch& s, const StopSignal* stop, Queue& q) {
  const TextConfig& c = model.config;
  const int64_t row_count = hidden.rows;
  const int64_t block = q.traits().block_rows(row_count);
  if (layer == 0) enqueue_angles(c, row_count, s, q);
  const LayerPass pass{c, s, plan, s.layer_rows(c), layer};
  const TextLayer& w = model.layers[layer];
  const auto rows_from = [&](int64_t first) { return hidden.slice_rows(first, std::min(block, row_count - first)); };
  const int64_t carried = s.carry.on() && q.traits().is_cuda() ? s.carry.images.device.cols : plan.carried_images;
  // The change of an image's rows must be known before any row attends to it.
  const bool ahead = carried > 0 && block < row_count;
  for (int64_t first = 0; ahead && first < row_count; first += block)
    prepare_block(pass, w, first, rows_from(first), q);
  if (ahead) carry_layer(pass, carried, q);
  // A block needs the keys and values of its own rows and those before it, so it can run the whole layer at once.
  for (int64_t first = 0; first < row_count; first += block) {
    if (q.stopped(stop)) return;
    const LayerRows rows = prepare_block(pass, w, first, rows_from(first), q);
    if (carried > 0 && !ahead) carry_layer(pass, carried, q);
    run_block(pass, w, first, rows, rows_from(first), q);
  }
  store_kv({.rows = pass.rows, .count = row_count, .slots = s.slots.device.data, .layer = layer}, q);
}

void expand_past(const TextModel& model, int32_t layer, const PrefillPlan& plan, const PrefillScratch& s, Queue& q) {
  if (plan.expanded_tiles == 0) return;
  expand_kv({.runs = s.expand.runs.device.data,
             .run_count = static_cast<int32_t>(plan.expanded_tiles),
             .layer = s.kv.layer(layer),
             .rope = model.config.rope,
             .out = s.expand.rows(model.config)},
            q);
}

void compress_rows(const TextModel& model, int32_t layer, const PrefillPlan& plan, const PrefillScratch& s, Queue& q) {
  if (!plan.compress.active) return;
  const TraceRange range(s.trace, "compress");
  const TextConfig& c = model.config;
  const LayerToCompress compressed{.config = c,
                                   .plan = plan.compress,
                                   .scratch = s.compress,
                                   .rows = s.layer_rows(c),
                                   .queries = observed_queries(c, plan.compress, s),
                                   .past = s.past.device.data,
                                   .past_count = static_cast<int32_t>(plan.past_tiles),
                                   .layer = s.kv.layer(layer),
                                   .angles = s.angles};
  compress_layer(compressed, q);
  if (plan.compress.is_late && layer + 1 == c.layer_count) compress_all_layers(compressed, q);
}

Status prefill_rows(const TextModel& model, DeviceView<float> hidden, const PrefillPlan& plan, const PrefillScratch& s,
                    const StopSignal* stop, Queue& q) {
  const int32_t layers = std::min(model.config.layer_count, plan.most_layers);
  for (int32_t layer = 0; layer < layers && q.ok(); ++layer) {
    expand_past(model, layer, plan, s, q);
    enqueue_layer(model, layer, hidden, plan, s, stop, q);
    compress_rows(model, layer, plan, s, q);
  }
  return q.status();
}

}  // namespace ocellus
