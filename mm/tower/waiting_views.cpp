#include "mm/tower/waiting_views.h"

namespace ocellus {

Status WaitingViews::lay_out(const VisionConfig& config, const ViewBatch& most, const KeptViewsShape& kept,
                             DeviceView<float> notes, const DeviceTraits& device, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kSession;
  notes_ = notes;
  OCELLUS_TRY(take_rows(sink, "waiting views", kLife, Phase::kNone, 1, most.views, &views_));
  if (kept.count > 0) OCELLUS_TRY(kept_.lay_out(kept, config, most, sink));
  if (device.in_blocks()) return {};
  return take_rows(sink, "pixels of waiting views", kLife, Phase::kNone, 1, most.pixel_values(), &pixels_);
}

DeviceView<float> WaitingViews::next_pixels(const ViewBatch& next, const VisionScratch& scratch) const {
  const int64_t before = pixels_.data == nullptr ? 0 : count_ * (next.pixel_values() / next.views);
  return next.pixels_at(first_pixels(scratch) + before);
}

Status WaitingViews::record(const VisionModel& model, const VisionScratch& scratch, DeviceView<float> rows,
                            Queue& queue) {
  const VisionConfig& c = model.config;
  float* const pixels = first_pixels(scratch);
  if (!c.any_size) {
    const ViewBatch all(c, views_.cols, c.view_size());
    return graphs_.record(model, all.pixels_at(pixels), all.views, scratch, queue);
  }
  const int64_t most = scratch.hidden.rows / (c.scale_factor * c.scale_factor);
  for (int64_t count = 1, last = 0; count > last; last = count, count = std::min(2 * count, most)) {
    const ViewBatch batch(c, 1, {static_cast<int32_t>(count) * c.row_side(), c.row_side()});
    OCELLUS_TRY(encode_views({.model = model,
                              .pixels = batch.pixels_at(pixels),
                              .batch = batch,
                              .scratch = scratch,
                              .out = rows.slice_rows(0, count)},
                             queue));
  }
  return queue.traits().lean ? queue.finish() : any_size_graphs_.record(model, scratch, queue);
}

namespace {

/// A view's rows are not adjacent if text stands between the views of a prompt, or if their tiles' rows form a map.
void copy_rows(DeviceView<const float> rows, const RowPlace& place, DeviceView<float> hidden, Queue& queue) {
  const int64_t bytes = place.cols * hidden.cols * static_cast<int64_t>(sizeof(float));
  for (int32_t line = 0; line < place.lines; ++line)
    queue.copy(hidden.row(place.first + line * place.stride), rows.row(place.from + int64_t{line} * place.from_stride),
               bytes);
}

}  // namespace

/// Encodes the only view that waits. Its rows go to their places at once, unless they are not adjacent.
Status WaitingViews::encode_alone(const VisionModel& model, const VisionScratch& scratch, DeviceView<float> hidden,
                                  const StopSignal* stop, Queue& queue) {
  const WaitingView& view = views_.data[0];
  const ViewBatch batch(model.config, 1, view.size, view.frames);
  const int64_t tokens = batch.tokens();
  const bool in_place = view.place.is_whole(tokens);
  const EncodeArgs args = {.model = model,
                           .pixels = batch.pixels_at(first_pixels(scratch)),
                           .batch = batch,
                           .scratch = scratch,
                           .out = in_place ? hidden.slice_rows(view.place.first, tokens) : scratch.projected,
                           .stop = stop,
                           .trace = trace_};
  if (queue.on_cuda() && !queue.traits().lean)
    OCELLUS_TRY(any_size_graphs_.encode(args, queue));
  else
    OCELLUS_TRY(encode_views(args, queue));
  if (!in_place) copy_rows(scratch.projected, view.place, hidden, queue);
  return {};
}

Status WaitingViews::drop_known(const VisionConfig& config, const VisionScratch& scratch, DeviceView<float> hidden,
                                Queue& queue) {
  if (!kept_.planned() || described_ == count_) return {};
  const auto batch_of = [&](int64_t views) {
    return ViewBatch(config, views, views_.data[0].size, views_.data[0].frames);
  };
  const ViewBatch batch = batch_of(count_ - described_);
  const int64_t values = batch_of(1).pixel_values();
  float* const pixels = first_pixels(scratch);
  OCELLUS_TRY(kept_.describe(batch.pixels_at(pixels + described_ * values), batch, described_, queue));
  int64_t left = described_;
  for (int64_t i = described_; i < count_; ++i) {
    if (kept_.give(i, views_.data[i], hidden, notes_, queue)) continue;
    if (left < i) {
      queue.copy(pixels + left * values, pixels + i * values, values * static_cast<int64_t>(sizeof(float)));
      kept_.renumber(i, left);
      views_.data[left] = views_.data[i];
    }
    ++left;
  }
  counts_.known += static_cast<int32_t>(count_ - left);
  count_ = described_ = left;
  return queue.status();
}

Status WaitingViews::encode(const VisionModel& model, const VisionScratch& scratch, DeviceView<float> hidden,
                            const StopSignal* stop, Queue& queue) {
  OCELLUS_TRY(drop_known(model.config, scratch, hidden, queue));
  if (count_ == 0) return {};
  const TraceRange range(trace_, "encode");
  if (queue.on_cuda() && !model.config.any_size) {
    const int64_t tokens = model.config.tokens_per_view();
    OCELLUS_TRY(graphs_.run(count_, stop, queue));
    for (int64_t i = 0; i < count_; ++i)
      copy_rows(scratch.projected.slice_rows(i * tokens, tokens), views_.data[i].place, hidden, queue);
  } else {
    OCELLUS_TRY(encode_alone(model, scratch, hidden, stop, queue));
  }
  OCELLUS_TRY(queue.status());
  const int64_t noted = scratch.notes.rows > 0 ? ViewBatch(model.config, 1, views_.data[0].size).tokens() : 0;
  for (int64_t i = 0; i < count_ && noted > 0; ++i)
    copy_rows(scratch.notes.slice_rows(i * noted, noted), views_.data[i].place, notes_, queue);
  if (kept_.planned())
    for (int64_t i = 0; i < count_; ++i) kept_.keep(i, views_.data[i], hidden, notes_, queue);
  counts_.encoded += static_cast<int32_t>(count_);
  clear();
  return queue.status();
}

}  // namespace ocellus
