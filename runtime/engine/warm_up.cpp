#include "runtime/engine/warm_up.h"

#include <algorithm>

#include "runtime/engine/engine.h"
#include "runtime/engine/picture_source.h"

namespace ocellus {
namespace {

/// Records the tower and the projector for every possible number of views.
Status record_encoding(Engine& e) {
  const ArenaScope scope(e.arena());
  VisionScratch scratch;
  OCELLUS_TRY(e.take_scratch(&scratch));
  return e.memory().pictures.waiting.record(e.vision(), scratch, e.memory().chunk.inputs, e.queue());
}

/// Records prompts of every shape. Their keys and values all go to the first page.
Status record_prefill(Engine& e, PrefillGraphs* graphs) {
  const ArenaScope scope(e.arena());
  PrefillScratch scratch;
  scratch.extra.trace = e.trace();
  const TextConfig& c = e.text().config;
  const DeviceView<float> hidden = e.memory().chunk.hidden;
  OCELLUS_TRY(e.take_scratch(&scratch));
  const RowFacts& rows = scratch.rows;
  const KvRun page = e.memory().pools.page_run(0);
  for (int64_t i = 0; i < hidden.rows; ++i) {
    rows.slots.host.data[i] = run_slot(page, i % kPageSlots, c.head_dim);
    PositionSpan().write(0, i % c.context_length, rows.positions.coordinates, rows.positions.host_row(i));
  }
  e.queue().upload(rows.slots, hidden.rows);
  rows.positions.upload(hidden.rows, e.queue());
  return graphs->record(e.text(), hidden, scratch, e.queue());
}

/// Makes all rows inactive.
Status clear_steps(const StepScratch& s, Queue& queue) {
  std::fill(s.steps.host.data, s.steps.host.data + s.steps.host.cols, StepRow());
  queue.upload(s.steps, s.steps.host.cols);
  return queue.cuda()->fill(s.attend_scratch.data, 0, s.attend_scratch.rows * s.attend_scratch.cols);
}

Status record_steps(Engine& e, StepGraphs* graphs) {
  const ArenaScope scope(e.arena());
  StepScratch s;
  OCELLUS_TRY(e.take_scratch(&s));
  OCELLUS_TRY(clear_steps(s, e.queue()));
  const StepShape most{e.shape().step_rows, e.shape().tiles_per_session()};
  for (int64_t rows = 1, last = 0; rows > last; last = rows, rows = std::min(2 * rows, most.rows))
    OCELLUS_TRY(enqueue_first_token(e.text(), rows, s, e.queue()));
  return graphs->record(e.text(), most, s, e.queue());
}

/// Runs a picture from the caller's memory to the pixels of its views.
Status rehearse_picture(Engine& e, const PictureShape& shape, const Frame& frame, const ImageScratch& scratch) {
  ViewPlan plan;
  OCELLUS_TRY(plan_views(shape.preprocess, frame.width, frame.height, &plan));
  PictureSource source(shape, plan, scratch, e.memory().pictures.decoder, e.queue());
  const Picture picture{.frame = &frame, .width = frame.width, .height = frame.height};
  OCELLUS_TRY(source.open(picture));
  for (int32_t view = 0; view < plan.view_count(); ++view) {
    const ViewBatch one(e.vision().config, 1, plan.view_size(view));
    OCELLUS_TRY(source.render(picture, view, e.memory().pictures.waiting.next_pixels(one, scratch.vision)));
  }
  return e.queue().status();
}

/// Runs a small picture of every format, and one as if it were too large for the GPU.
Status rehearse_pictures(Engine& e, const ImageScratch& scratch) {
  constexpr int32_t kSide = 16;
  constexpr uint8_t kBytes[4 * kSide * kSide] = {};
  const ImageLimits& most = e.shape().pictures.device_limits;
  if (most.max_pixels < kSide * kSide || most.max_side < kSide) return {};  // no picture can be that large
  Frame frame{.width = kSide,
              .height = kSide,
              .planes = {kBytes, kBytes, kBytes},
              .stride_bytes = {4 * kSide, 4 * kSide, 4 * kSide}};
  for (int format = 0; format < kPixelFormats; ++format) {
    frame.format = static_cast<PixelFormat>(format);
    OCELLUS_TRY(rehearse_picture(e, e.shape().pictures, frame, scratch));
  }
  if (!e.shape().pictures.host_resizes_large()) return {};
  PictureShape by_rows = e.shape().pictures;
  by_rows.device_limits.max_pixels = 0;
  return rehearse_picture(e, by_rows, frame, scratch);
}

Status rehearse_images(Engine& e) {
  {
    const ArenaScope picture_scope(e.arena());
    ImageScratch scratch;
    OCELLUS_TRY(e.take_scratch(&scratch));
    e.queue().upload(scratch.picture, scratch.picture.device.cols);
    e.queue().note_copies();
    e.queue().wait_for_copies();
    OCELLUS_TRY(rehearse_pictures(e, scratch));
  }
  const ArenaScope scope(e.arena());
  VisionScratch scratch;
  OCELLUS_TRY(e.take_scratch(&scratch));
  const VisionConfig& vision = e.vision().config;
  const int32_t rows = vision.any_size ? 1 : vision.tokens_per_view();
  const Size size = vision.any_size ? Size{vision.row_side(), vision.row_side()} : vision.view_size();
  WaitingViews& waiting = e.memory().pictures.waiting;
  waiting.add({ViewPlan::whole_view(rows), size});
  OCELLUS_TRY(waiting.encode(e.vision(), scratch, e.memory().chunk.inputs, nullptr, e.queue()));
  waiting.kept().clear();
  (void)waiting.take_counts();
  return {};
}

/// Runs all regular operations of an engine once, so that the driver has seen every kind of call.
Status rehearse(Engine& e, const PrefillGraphs& prefill, StepGraphs* steps) {
  const ArenaScope scope(e.arena());
  Queue& q = e.queue();
  for (int i = 0; i < Queue::kTimers; ++i) {
    const Queue::Timer timer{i};
    q.start_timer(timer);
    q.stop_timer(timer);
    (void)q.timer_ms(timer);
  }
  if (e.shape().pictures.planned()) OCELLUS_TRY(rehearse_images(e));
  {
    const ArenaScope prefill_scope(e.arena());
    PrefillScratch scratch;
    OCELLUS_TRY(e.take_scratch(&scratch));
    const RowFacts& rows = scratch.rows;
    std::fill_n(rows.slots.host.data, rows.slots.host.cols, KvSlot());  // nothing is stored
    std::fill_n(rows.positions.host_row(0), rows.positions.values.host.cols, 0);
    if (scratch.links.change != nullptr) scratch.links.change->plan_none(q);  // pictures used the memory of its list
    (void)plan_rows({}, {}, scratch, q);
    std::fill_n(rows.tokens.host.data, rows.tokens.host.cols, 0);
    OCELLUS_TRY(prefill.run(e.text(), 1, {}, nullptr, q));
    const int32_t token = 0;
    e.memory().chunk.add_text(&token, 1);
    e.memory().chunk.embed_text(e.text(), q);
    e.memory().chunk.clear();
    q.copy(e.memory().last_hidden.data, e.memory().chunk.hidden.data,
           e.memory().last_hidden.cols * int64_t{sizeof(float)});
    OCELLUS_TRY(q.finish());  // its lists are still being read, and later code writes to the same host memory
  }
  StepScratch scratch;
  OCELLUS_TRY(e.take_scratch(&scratch));
  OCELLUS_TRY(clear_steps(scratch, q));
  q.copy(&scratch.steps.device.data->active, &scratch.steps.host.data->active, sizeof(int32_t));
  for (int64_t step = 0; step < 2 * Queue::kResultMarks; ++step) {
    OCELLUS_TRY(steps->launch({1, 1}, scratch, q));
    q.record_result(step);
    q.wait_for_result(step);
  }
  return q.finish();
}

}  // namespace

Status warm_up(Engine& e, PrefillGraphs* prefill, StepGraphs* steps) {
  if (e.shape().pictures.planned()) OCELLUS_TRY(record_encoding(e));
  OCELLUS_TRY(record_prefill(e, prefill));
  OCELLUS_TRY(record_steps(e, steps));
  return rehearse(e, *prefill, steps);
}

}  // namespace ocellus
