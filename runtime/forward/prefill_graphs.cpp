#include "runtime/forward/prefill_graphs.h"

#include <algorithm>

namespace ocellus {
/// Returns 16, 32, 64, ... and the maximum of rows at once.
int64_t PrefillGraphs::rows_of(int32_t shape) const {
  return std::min(kLeastRows << shape, scratch_.limits.rows_at_once);
}

/// Returns none, 64, 256, 1024, ... and the maximum.
int64_t PrefillGraphs::past_of(int32_t shape) const {
  return shape == 0 ? 0 : std::min(kFewPastTiles << (2 * (shape - 1)), scratch_.past.runs.host.cols);
}

int32_t PrefillGraphs::long_part(int32_t layer, int64_t part) const {
  return static_cast<int32_t>(layer * (part_count_of_layer() + 1) + part);
}

Status PrefillGraphs::record(const TextModel& model, DeviceView<float> hidden, const PrefillScratch& scratch,
                             Queue& queue) {
  hidden_ = hidden;
  scratch_ = scratch;
  for (row_shapes_ = 1; rows_of(row_shapes_ - 1) < scratch.limits.rows_at_once;) ++row_shapes_;
  for (past_shapes_ = 1; past_of(past_shapes_ - 1) < scratch.past.runs.host.cols;) ++past_shapes_;
  const bool stops =
      scratch.compress.policy.compresses() || scratch.past.copies.runs.host.cols > 0 || scratch.extra.source != nullptr;
  layers_per_part_ = stops ? 1 : kLayersPerPart;
  OCELLUS_TRY(parts_.allocate(row_shapes_ * past_shapes_, part_count(model.config.layer_count, layers_per_part_)));
  std::fill_n(scratch.past.runs.host.data, scratch.past.runs.host.cols, KvRun());
  queue.upload(scratch.past.runs, scratch.past.runs.host.cols);
  upload_tokens(0, scratch.rows.tokens.host.cols, queue);
  if (scratch.links.change != nullptr) scratch.links.change->plan_none(queue);
  (void)plan_rows({}, {}, scratch, queue);
  for (int32_t r = 0; r < row_shapes_; ++r) OCELLUS_TRY(record_shape(model, r, queue));
  if (part_count_of_layer() > 1) OCELLUS_TRY(record_long(model, queue));
  return queue.finish();
}

Status PrefillGraphs::record_shape(const TextModel& model, int32_t row_shape, Queue& queue) {
  const int32_t layers = model.config.layer_count;
  const DeviceView<float> rows = hidden_.slice_rows(0, rows_of(row_shape));
  clear_rows(rows, queue);
  // Run once before recording: a library's choices and loads at a first call cannot be recorded.
  OCELLUS_TRY(prefill_rows(model, rows, {}, scratch_, nullptr, queue));
  for (int32_t p = 0; p < past_shapes_; ++p) {
    const PrefillPlan seen{.past_tiles = past_of(p)};
    for (int32_t part = 0; part < part_count(layers, layers_per_part_); ++part) {
      const int32_t end = std::min((part + 1) * layers_per_part_, layers);
      OCELLUS_TRY(parts_.record(row_shape * past_shapes_ + p, part, queue, [&] {
        for (int32_t layer = part * layers_per_part_; layer < end; ++layer)
          enqueue_layer({model, seen, scratch_, layer}, rows, nullptr, queue);
      }));
    }
  }
  return {};
}

Status PrefillGraphs::record_long(const TextModel& model, Queue& queue) {
  const int32_t layers = model.config.layer_count;
  const int64_t parts = part_count_of_layer(), rows = scratch_.limits.rows_at_once;
  clear_rows(hidden_, queue);
  OCELLUS_TRY(long_parts_.allocate(kLongPastShapes, long_part(layers, 0)));
  for (int32_t p = 0; p < kLongPastShapes; ++p) {
    const PrefillPlan seen{.past_tiles = p == 0 ? 0 : scratch_.past.runs.host.cols};
    for (int32_t layer = 0; layer < layers; ++layer) {
      const LayerPass pass{model, seen, scratch_, layer};
      for (int64_t part = 0; part < parts && !pass.runs_last_row(); ++part) {
        OCELLUS_TRY(long_parts_.record(p, long_part(layer, part), queue, [&] {
          if (part == 0) begin_layer(pass, hidden_, queue);
          enqueue_blocks(pass, hidden_, part * rows, (part + 1) * rows, nullptr, queue);
        }));
      }
      OCELLUS_TRY(long_parts_.record(p, long_part(layer, parts), queue, [&] {
        pass.runs_last_row() ? enqueue_last_row(pass, hidden_, queue) : end_layer(pass, hidden_.rows, queue);
      }));
    }
  }
  return {};
}

/// Padding rows have the first token, so that their inputs of layers are finite.
void PrefillGraphs::upload_tokens(int64_t rows, int64_t padded, Queue& queue) const {
  const StagedRows<int32_t>& tokens = scratch_.rows.tokens;
  if (!scratch_.layer_inputs.on()) return;
  std::fill(tokens.host.data + rows, tokens.host.data + padded, 0);
  queue.upload(tokens, padded);
}

/// Uploads the lists for `padded` rows and `past` runs, and writes zeros after the rows.
void PrefillGraphs::upload_lists(int64_t rows, int64_t padded, int64_t past_tiles, int64_t past, Queue& queue) const {
  const RowFacts& facts = scratch_.rows;
  const StagedRows<KvRun>& runs = scratch_.past.runs;
  std::fill(facts.slots.host.data + rows, facts.slots.host.data + padded, KvSlot());
  std::fill(facts.positions.host_row(rows), facts.positions.host_row(padded), 0);
  std::fill(runs.host.data + past_tiles, runs.host.data + past, KvRun());
  queue.upload(facts.slots, padded);
  facts.positions.upload(padded, queue);
  queue.upload(runs, past);
  upload_tokens(rows, padded, queue);
  if (padded > rows && queue.ok()) clear_rows(hidden_.slice_rows(rows, padded - rows), queue);
}

void PrefillGraphs::run_layer(int32_t rows_shape, int32_t past_shape, const LayerPass& pass, int64_t rows,
                              Queue& queue) const {
  if (rows <= scratch_.limits.rows_at_once)
    return parts_.run_part(rows_shape * past_shapes_ + past_shape, pass.layer, queue);
  const int32_t shape = past_shape > 0 ? 1 : 0;
  for (int64_t part = 0; part * scratch_.limits.rows_at_once < rows && !pass.runs_last_row(); ++part)
    long_parts_.run_part(shape, long_part(pass.layer, part), queue);
  long_parts_.run_part(shape, long_part(pass.layer, part_count_of_layer()), queue);
}

Status PrefillGraphs::run(const TextModel& model, int64_t rows, const PrefillPlan& plan, const StopSignal* stop,
                          Queue& queue) const {
  int32_t r = 0, p = 0;
  while (r + 1 < row_shapes_ && rows_of(r) < rows) ++r;
  while (p + 1 < past_shapes_ && past_of(p) < plan.past_tiles) ++p;
  const bool is_long = rows > scratch_.limits.rows_at_once;
  if (is_long && p > 0) p = past_shapes_ - 1;
  upload_lists(rows, is_long ? hidden_.rows : rows_of(r), plan.past_tiles, past_of(p), queue);
  if (layers_per_part_ > 1) return parts_.run(r * past_shapes_ + p, stop, queue);
  const ExtraSteps& extra = scratch_.extra;
  const int32_t layers = std::min(model.config.layer_count, plan.most_layers);
  for (int32_t layer = plan.first_layer; layer < layers && !queue.stopped(stop); ++layer) {
    const LayerPass pass{model, plan, scratch_, layer};
    if (extra.source != nullptr) extra.source->write_rows(pass, hidden_.slice_rows(0, rows), queue);
    if (const auto step = pass.step(extra.before_layer)) step(pass, queue);
    run_layer(r, p, pass, rows, queue);
    if (const auto step = pass.step(extra.after_layer)) step(pass, queue);
  }
  return queue.status();
}

}  // namespace ocellus
