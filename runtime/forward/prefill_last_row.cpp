#include "runtime/forward/prefill_last_row.h"

#include <algorithm>

#include "kernels/rows/convert_rows.h"
#include "runtime/forward/prefill.h"

namespace ocellus {
namespace {

void take_out(const LayerPass& pass, DeviceView<float> hidden, Queue& q) {
  const PrefillScratch& s = pass.scratch;
  const LastRowScratch& last = s.last_row;
  const auto take = [&](const ActivationView& from, const ActivationView& to) {
    convert_rows({.from = from, .to = to, .sources = last.number.device.data}, q);
  };
  take(hidden, last.hidden);
  take(s.rows.angles, last.angles);
  if (s.window.on()) take(s.window.angles, last.local_angles);
  if (s.layer_inputs.on()) take(s.layer_inputs.inputs, last.inputs);
}

/// It sees the whole chunk: as if it were the last of the rows to spare.
RowBlock last_block(const LayerPass& pass, int64_t chunk_rows) {
  const LastRowScratch& last = pass.scratch.last_row;
  const TextConfig& c = pass.config();
  const bool local = pass.is_local();
  return {.first = chunk_rows - 1,
          .chunk_rows = chunk_rows,
          .hidden = last.hidden,
          .rows = pass.scratch.layer.view(c, pass.layer, 1),
          .angles = local ? last.local_angles : last.angles,
          .bounds = RowBounds::listed(last.seen.device.data + (local ? 1 : 0)),
          .input = last.inputs.slice_cols(int64_t{pass.layer} * c.layer_input_width, c.layer_input_width)};
}

}  // namespace

Status LastRowScratch::lay_out(const TextConfig& c, const DeviceTraits& device, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  constexpr Phase kPhase = kPrefillPhase;
  if (c.sharing.count == 0 || !device.is_cuda()) return {};
  OCELLUS_TRY(number.lay_out(sink, "number of the last row", kLife, kPhase, 1, 1));
  OCELLUS_TRY(seen.lay_out(sink, "rows that the last one sees", kLife, kPhase, 1, 2));
  OCELLUS_TRY(take_rows(sink, "last row", kLife, kPhase, 1, c.width, &hidden));
  OCELLUS_TRY(take_rows(sink, "angles of the last row", kLife, kPhase, 1, c.rope.rotated, &angles));
  if (c.has_windows())
    OCELLUS_TRY(take_rows(sink, "its local angles", kLife, kPhase, 1, c.local.rope.rotated, &local_angles));
  if (c.layer_input_width == 0) return {};
  return take_activations(sink, "inputs of the last row", kLife, kPhase, device.activations(), 1,
                          int64_t{c.layer_count} * c.layer_input_width, &inputs);
}

void plan_last_row(int64_t rows, const PrefillScratch& s, Queue& queue) {
  const LastRowScratch& last = s.last_row;
  if (!last.on()) return;
  const auto row = static_cast<int32_t>(std::max<int64_t>(rows - 1, 0));
  last.number.host.data[0] = row;
  last.seen.host.data[0] = s.window.mutual() ? s.window.seen_globally.host.data[row] : RowSpan{0, row + 1};
  last.seen.host.data[1] = s.window.on() ? s.window.seen.host.data[row] : RowSpan{0, row + 1};
  queue.upload(last.number, 1);
  queue.upload(last.seen, 2);
}

void enqueue_last_row(const LayerPass& pass, DeviceView<float> hidden, Queue& q) {
  const LastRowScratch& last = pass.scratch.last_row;
  const TextConfig& c = pass.config();
  if (pass.layer == c.own_layers()) take_out(pass, hidden, q);
  enqueue_block(pass, last_block(pass, hidden.rows), q);
  if (pass.layer + 1 == c.layer_count)
    convert_rows({.from = last.hidden, .to = hidden, .places = last.number.device.data}, q);
}

}  // namespace ocellus
