#include "runtime/warm_up.h"

#include <algorithm>

namespace ocellus {
namespace {

Status clear_rows(DeviceView<float> rows, Queue& queue) {
  return queue.cuda()->fill(rows.data, 0, rows.rows * rows.cols * static_cast<int64_t>(sizeof(float)));
}

/// The tower and the projector for every number of views that may come together.
Status encode_each_batch(const WarmUp& e) {
  const ArenaScope scope(e.arena);
  ImageScratch scratch;
  OCELLUS_TRY(scratch.lay_out(e.model, e.shape, e.memory.picture_staging, e.arena));
  const VisionConfig& c = e.vision.config;
  const int64_t most = std::min<int64_t>(e.shape.view_batch, e.memory.chunk.hidden.rows / c.tokens_per_view());
  for (int64_t views = 1; views <= most; ++views) {
    WaitingViews& waiting = e.memory.waiting_views;
    OCELLUS_TRY(clear_rows(waiting.next_pixels(c, scratch.vision, views), e.queue));
    for (int64_t i = 0; i < views; ++i) waiting.add(0);
    OCELLUS_TRY(waiting.encode(e.vision, scratch.vision, e.memory.chunk.hidden, nullptr, e.queue));
  }
  return e.queue.finish();
}

/// Prompts of one row, two, four, ... and of a whole chunk. Their keys and values go to the first page, over and over.
Status prefill_each_size(const WarmUp& e) {
  const ArenaScope scope(e.arena);
  PrefillScratch scratch;
  const TextConfig& c = e.text.config;
  const DeviceView<float> hidden = e.memory.chunk.hidden;
  OCELLUS_TRY(scratch.lay_out(c, e.shape.prompt_rows, e.shape.tiles_per_session(), e.shape.device, e.arena));
  const KvRun page = e.memory.pools.run_over(e.memory.pools.pages.address(0), kPageSlots);
  for (int64_t i = 0; i < hidden.rows; ++i) {
    scratch.slots.host.data[i] = run_slot(page, i % kPageSlots, c.head_dim);
    scratch.positions.host.data[i] = static_cast<int32_t>(i % c.context_length);
  }
  e.queue.upload(scratch.slots, hidden.rows);
  e.queue.upload(scratch.positions, hidden.rows);
  for (int64_t rows = 1;; rows = std::min(2 * rows, hidden.rows)) {
    OCELLUS_TRY(clear_rows(hidden, e.queue));
    OCELLUS_TRY(prefill_rows(e.text, hidden.slice_rows(0, rows), {}, scratch, nullptr, e.queue));
    if (rows == hidden.rows) break;
  }
  return e.queue.finish();
}

Status record_steps(const WarmUp& e, StepGraphs* graphs) {
  const ArenaScope scope(e.arena);
  GenerateScratch scratch;
  OCELLUS_TRY(scratch.lay_out(e.model, e.shape, e.arena));
  const StepScratch& s = scratch.step;
  std::fill(s.steps.host.data, s.steps.host.data + s.steps.host.cols, StepRow());
  e.queue.upload(s.steps, s.steps.host.cols);
  OCELLUS_TRY(e.queue.cuda()->fill(s.attend_scratch.data, 0, s.attend_scratch.rows * s.attend_scratch.cols));
  const StepShape most{most_step_rows(e.shape.sessions, e.shape.device), e.shape.tiles_per_session()};
  for (int64_t rows = 1; rows <= most.rows; rows *= 2) OCELLUS_TRY(enqueue_first_token(e.text, rows, s, e.queue));
  return graphs->record(e.text, most, s, e.queue);
}

}  // namespace

Status warm_up(const WarmUp& e, StepGraphs* graphs) {
  if (e.shape.images_per_session > 0) OCELLUS_TRY(encode_each_batch(e));
  OCELLUS_TRY(prefill_each_size(e));
  return record_steps(e, graphs);
}

}  // namespace ocellus
