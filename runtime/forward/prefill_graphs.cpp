#include "runtime/forward/prefill_graphs.h"

#include <algorithm>

namespace ocellus {

/// Returns 16, 32, 64, ... and the maximum of rows at once.
int64_t PrefillGraphs::rows_of(int32_t shape) const { return std::min(kLeastRows << shape, scratch_.rows_at_once); }

/// Returns the least shape of at least `rows` rows.
int32_t PrefillGraphs::shape_of(int64_t rows) const {
  int32_t shape = 0;
  while (shape + 1 < row_shapes_ && rows_of(shape) < rows) ++shape;
  return shape;
}

int64_t PrefillGraphs::past_of(int32_t shape) const {
  const int64_t most = scratch_.past.host.cols;
  return shape == 0 ? 0 : shape == 1 ? std::min(kFewPastTiles, most) : most;
}

Status PrefillGraphs::record(const TextModel& model, DeviceView<float> hidden, const PrefillScratch& scratch,
                             Queue& queue) {
  hidden_ = hidden;
  scratch_ = scratch;
  for (row_shapes_ = 1; rows_of(row_shapes_ - 1) < scratch.rows_at_once;) ++row_shapes_;
  layers_per_part_ = scratch.compress.policy.compresses() || scratch.expand.runs.host.cols > 0 ? 1 : kLayersPerPart;
  const int32_t layers = model.config.layer_count, parts = part_count(layers, layers_per_part_);
  OCELLUS_TRY(parts_.allocate(row_shapes_ * kPastShapes, parts));
  std::fill_n(scratch.past.host.data, scratch.past.host.cols, KvRun());
  queue.upload(scratch.past, scratch.past.host.cols);
  if (scratch.carry.on()) carry_no_change(scratch.carry, queue);
  for (int32_t r = 0; r < row_shapes_; ++r) {
    const DeviceView<float> rows = hidden.slice_rows(0, rows_of(r));
    OCELLUS_TRY(queue.cuda()->fill(rows.data, 0, rows.rows * rows.cols * static_cast<int64_t>(sizeof(float))));
    // Run once before recording: a library's choices and loads at a first call cannot be recorded.
    OCELLUS_TRY(prefill_rows(model, rows, {}, scratch, nullptr, queue));
    for (int32_t p = 0; p < kPastShapes; ++p) {
      const PrefillPlan seen{.past_tiles = past_of(p)};
      for (int32_t part = 0; part < parts; ++part) {
        const int32_t end = std::min((part + 1) * layers_per_part_, layers);
        OCELLUS_TRY(parts_.record(r * kPastShapes + p, part, queue, [&] {
          for (int32_t layer = part * layers_per_part_; layer < end; ++layer)
            enqueue_layer({model, seen, scratch, layer}, rows, nullptr, queue);
        }));
      }
    }
  }
  return queue.finish();
}

/// Uploads the lists of the rows, and appends rows of zeros.
void PrefillGraphs::pad_rows(int64_t rows, int64_t padded, Queue& queue) const {
  std::fill(scratch_.slots.host.data + rows, scratch_.slots.host.data + padded, KvSlot());
  std::fill(scratch_.positions.host.data + rows, scratch_.positions.host.data + padded, 0);
  queue.upload(scratch_.slots, padded);
  queue.upload(scratch_.positions, padded);
  if (padded > rows && queue.ok())
    queue.fail(
        queue.cuda()->fill(hidden_.row(rows), 0, (padded - rows) * hidden_.cols * static_cast<int64_t>(sizeof(float))));
}

/// The last block is padded to a recorded number of rows, so that every product has a shape that was run before.
Status PrefillGraphs::run_long(const TextModel& model, int64_t rows, const PrefillPlan& plan, const StopSignal* stop,
                               Queue& queue) const {
  const int64_t whole = rows / scratch_.rows_at_once * scratch_.rows_at_once;
  const int64_t padded = whole + (rows > whole ? rows_of(shape_of(rows - whole)) : 0);
  pad_rows(rows, padded, queue);
  queue.upload(scratch_.past, plan.past_tiles);
  return prefill_rows(model, hidden_.slice_rows(0, padded), plan, scratch_, stop, queue);
}

Status PrefillGraphs::run(const TextModel& model, int64_t rows, const PrefillPlan& plan, const StopSignal* stop,
                          Queue& queue) const {
  const int32_t r = shape_of(rows);
  int32_t p = 0;
  while (p + 1 < kPastShapes && past_of(p) < plan.past_tiles) ++p;
  const int64_t past = past_of(p);
  const bool reads_too_much = rows >= kLongRows && past > 2 * plan.past_tiles && past > kFewPastTiles;
  if (rows > scratch_.rows_at_once || reads_too_much) return run_long(model, rows, plan, stop, queue);
  std::fill(scratch_.past.host.data + plan.past_tiles, scratch_.past.host.data + past, KvRun());
  pad_rows(rows, rows_of(r), queue);
  queue.upload(scratch_.past, past);
  if (layers_per_part_ > 1) return parts_.run(r * kPastShapes + p, stop, queue);
  const ExtraSteps& extra = scratch_.extra;
  const int32_t layers = std::min(model.config.layer_count, plan.most_layers);
  for (int32_t layer = 0; layer < layers && !queue.stopped(stop); ++layer) {
    const LayerPass pass{model, plan, scratch_, layer};
    if (extra.before_layer != nullptr) extra.before_layer(pass, queue);
    parts_.run_part(r * kPastShapes + p, layer, queue);
    if (extra.after_layer != nullptr) extra.after_layer(pass, queue);
  }
  return queue.status();
}

}  // namespace ocellus
