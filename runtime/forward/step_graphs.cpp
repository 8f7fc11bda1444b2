#include "runtime/forward/step_graphs.h"

namespace ocellus {
namespace {

Status enqueue_graph(const TextModel& model, const StepShape& shape, const StepScratch& scratch, Queue& queue) {
  OCELLUS_TRY(enqueue_forward(model, shape, scratch, nullptr, queue));
  return scratch.samples_apart() ? Status() : enqueue_sampling(shape.rows, scratch, queue);
}

}  // namespace

Status StepGraphs::record(const TextModel& model, const StepShape& most, const StepScratch& scratch, Queue& queue) {
  scratch_ = scratch;
  most_rows_ = most.rows;
  for (int r = 0; r < kRowShapes && (r == 0 || rows_of(r - 1) < most.rows); ++r)
    for (int t = 0; t < kTileShapes; ++t) {
      if (t > 0 && kTiles[t - 1] >= most.most_tiles) break;
      const StepShape shape{rows_of(r), std::min(kTiles[t], most.most_tiles)};
      // Run once before recording: a library's choices and loads at a first call cannot be recorded.
      OCELLUS_TRY(enqueue_graph(model, shape, scratch, queue));
      OCELLUS_TRY(queue.begin_capture());
      (void)enqueue_graph(model, shape, scratch, queue);
      OCELLUS_TRY(queue.end_capture(&graphs_[r][t]));
      queue.launch(graphs_[r][t]);  // the driver allocates at the first launch
    }
  return queue.finish();
}

Status StepGraphs::launch(const StepShape& shape, const StepScratch& scratch, Queue& queue) {
  int r = 0, t = 0;
  while (r < kRowShapes && rows_of(r) < shape.rows) ++r;
  while (t + 1 < kTileShapes && kTiles[t] < shape.most_tiles) ++t;
  if (scratch.steps.device.data != scratch_.steps.device.data ||
      scratch.sampling.logits.data != scratch_.sampling.logits.data || r >= kRowShapes || !graphs_[r][t].ready())
    return OCELLUS_FAIL(Code::kInternal, "no decode step was recorded for %lld rows and %lld runs here",
                        static_cast<long long>(shape.rows), static_cast<long long>(shape.most_tiles));
  queue.launch(graphs_[r][t]);
  return queue.status();
}

}  // namespace ocellus
