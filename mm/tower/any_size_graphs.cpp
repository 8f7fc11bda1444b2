#include "mm/tower/any_size_graphs.h"

#include "mm/tower/tower_pass.h"

namespace ocellus {
namespace {

/// Returns the number of its parts.
int32_t run_pass(const EncodeArgs& args, PassParts parts, Queue& queue) {
  TowerPass pass(args, queue, &parts);
  pass.config().tower->encode(pass);
  return parts.finish(queue);
}

}  // namespace

int32_t AnySizeGraphs::shape_of(int64_t rows) const {
  int32_t shape = 0;
  for (int64_t at = padded_rows(1, most_rows_); at < rows && shape + 1 < shapes_; ++shape)
    at = padded_rows(at + 1, most_rows_);
  return shape;
}

Status AnySizeGraphs::record(const VisionModel& model, const VisionScratch& scratch, Queue& queue) {
  const ViewBatch no_places;
  const EncodeArgs args = {.model = model, .batch = no_places, .scratch = scratch};
  most_rows_ = scratch.hidden.rows;
  shapes_ = 0;
  for (int64_t rows = 0; rows < most_rows_; rows = padded_rows(rows + 1, most_rows_)) ++shapes_;
  int64_t rows = 0;
  for (int32_t shape = 0; shape < shapes_; ++shape) {
    rows = padded_rows(rows + 1, most_rows_);
    OCELLUS_TRY(record_shape(args, shape, rows, queue));
  }
  return queue.finish();
}

/// Runs it once before it is recorded: a library's choices and loads at a first call cannot be recorded.
Status AnySizeGraphs::record_shape(const EncodeArgs& args, int32_t shape, int64_t rows, Queue& queue) {
  const int32_t parts = run_pass(args, {parts_, shape, rows, PassParts::Mode::kTry}, queue);
  if (shape == 0) OCELLUS_TRY(parts_.allocate(shapes_, parts));
  run_pass(args, {parts_, shape, rows, PassParts::Mode::kRecord}, queue);
  return queue.status();
}

Status AnySizeGraphs::encode(const EncodeArgs& args, Queue& queue) {
  run_pass(args, {parts_, shape_of(args.batch.rows()), 0, PassParts::Mode::kLaunch}, queue);
  return queue.status();
}

}  // namespace ocellus
