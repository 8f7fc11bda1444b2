// The memory of a prefill, and the choice of its extra steps.
#include <cstring>

#include "kernels/attention/attend_rows.h"
#include "kernels/rows/rope.h"
#include "platform/round_up.h"
#include "runtime/forward/prefill.h"

namespace ocellus {

void clear_rows(const ActivationView& rows, Queue& queue) {
  const int64_t bytes = rows.rows * rows.stride * rows.value_bytes();
  if (bytes == 0) return;
  if (queue.on_cuda())
    queue.fail(queue.cuda()->fill(rows.data, 0, bytes));
  else
    std::memset(rows.data, 0, static_cast<size_t>(bytes));
}

Status RowPositions::lay_out(const RopeParams& rope, int64_t rows, const char* name, RowSink& sink) {
  coordinates = rope.coordinates();
  return values.lay_out(sink, name, Lifetime::kScratch, kPrefillPhase, 1, rows * coordinates);
}

void RowPositions::find_angles(const RopeParams& rope, DeviceView<float> out, Queue& q) const {
  rope_angles({.positions = values.device.data,
               .position_stride = coordinates,
               .coordinates = coordinates,
               .count = out.rows,
               .params = rope,
               .angles = out},
              q);
}

Status LinkScratch::lay_out(const TextConfig& c, const PrefillLimits& limits, const DeviceTraits& device, RowSink& sink,
                            ExtraSteps* steps) {
  if (join != nullptr) OCELLUS_TRY(join->lay_out(c, limits, sink));
  if (change != nullptr) OCELLUS_TRY(change->lay_out(c, limits.links, sink, steps));
  return choice != nullptr ? choice->lay_out(c, limits.rows, device, sink) : Status();
}

Status PrefillScratch::lay_out(const TextConfig& c, const PrefillLimits& given, const DeviceTraits& device,
                               RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  constexpr Phase kPhase = kPrefillPhase;
  limits = given;
  const int64_t max_rows = limits.rows;
  OCELLUS_TRY(rows.positions.lay_out(c.rope, max_rows, "positions", sink));
  OCELLUS_TRY(rows.slots.lay_out(sink, "slots of rows", kLife, kPhase, 1, max_rows));
  OCELLUS_TRY(past.runs.lay_out(sink, "past runs", kLife, kPhase, 1, limits.past_tiles));
  OCELLUS_TRY(take_rows(sink, "angles", kLife, kPhase, max_rows, c.rope.rotated, &rows.angles));
  OCELLUS_TRY(window.lay_out(c, limits, sink));
  OCELLUS_TRY(conv.lay_out(c, limits, sink));
  const bool both = window.on() && (c.sharing.count > 0 || c.local.head_dim != c.head_dim);
  const int64_t own_rows = c.kv_heads * max_rows;
  const int64_t window_rows = c.kv_heads * (window.past_rows + max_rows + window.linked_slots);
  OCELLUS_TRY(take_rows(sink, "layer keys", kLife, kPhase, both ? own_rows : window_rows, c.head_dim, &kv.keys));
  OCELLUS_TRY(take_rows(sink, "layer values", kLife, kPhase, both ? own_rows : window_rows, c.head_dim, &kv.values));
  window.kv = kv;
  if (both) {
    OCELLUS_TRY(take_rows(sink, "local keys", kLife, kPhase, window_rows, c.local.head_dim, &window.kv.keys));
    OCELLUS_TRY(take_rows(sink, "local values", kLife, kPhase, window_rows, c.local.head_dim, &window.kv.values));
  }
  OCELLUS_TRY(layer.lay_out(c, limits.block_rows, {.op_bytes = attend_rows_scratch_bytes(c.longest_head(), device)},
                            device, kPhase, sink));
  OCELLUS_TRY(layer_inputs.lay_out(c, max_rows, device, kPhase, sink));
  OCELLUS_TRY(last_row.lay_out(c, device, sink));
  if (limits.weighs_rows)
    OCELLUS_TRY(rows.bias.lay_out(sink, "bias of rows", kLife, kPhase, 1, round_up(max_rows, kRowBiasUnit)));
  if (extra.source != nullptr) OCELLUS_TRY(extra.source->lay_out(c, max_rows, device, sink));
  if (layer_inputs.on()) OCELLUS_TRY(rows.tokens.lay_out(sink, "tokens of rows", kLife, kPhase, 1, max_rows));
  extra = {.source = extra.source, .trace = extra.trace};
  OCELLUS_TRY(compress.lay_out(c, limits.compress, device, sink));
  extra.after_layer = compress_rows;
  if (compress.last_queries.data != nullptr && !device.is_cuda()) extra.before_attention = keep_observed_queries;
  OCELLUS_TRY(links.lay_out(c, limits, device, sink, &extra));
  if (dropper != nullptr) OCELLUS_TRY(dropper->lay_out_prompt(limits.compress.rows, sink));
  if (device.is_cuda() && limits.expanded_tiles > 0) {
    OCELLUS_TRY(past.copies.lay_out(c, limits, sink));
    extra.before_layer = expand_past;
  }
  return {};
}

}  // namespace ocellus
