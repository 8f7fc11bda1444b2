#include "mm/tower/waiting_views.h"

#include "mm/tower/projector.h"

namespace ocellus {

Status WaitingViews::lay_out(const VisionConfig& c, int64_t capacity, const DeviceTraits& device, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kSession;
  OCELLUS_TRY(take_rows(sink, "waiting views", kLife, Phase::kNone, 1, capacity, &places_));
  if (device.in_blocks()) return {};
  return take_rows(sink, "pixels of waiting views", kLife, Phase::kNone, capacity * 3 * c.image_size, c.image_size,
                   &pixels_);
}

DeviceView<float> WaitingViews::next_pixels(const VisionConfig& c, const VisionScratch& scratch, int64_t views) const {
  if (pixels_.data == nullptr) return scratch.pixels;
  const int64_t rows_per_view = 3 * int64_t{c.image_size};
  return pixels_.slice_rows(count_ * rows_per_view, views * rows_per_view);
}

Status WaitingViews::record(const VisionModel& model, const VisionScratch& scratch, Queue& queue) {
  return graphs_.record(model, pixels_.data == nullptr ? scratch.pixels : pixels_, places_.cols, scratch, queue);
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

Status WaitingViews::encode(const VisionModel& model, const VisionScratch& scratch, DeviceView<float> hidden,
                            const StopSignal* stop, Queue& queue) {
  const int64_t views = count_, tokens = model.config.tokens_per_view();
  if (views == 0) return {};
  const TraceRange range(trace_, "encode");
  if (queue.on_cuda()) {
    OCELLUS_TRY(graphs_.run(views, stop, queue));
  } else {
    OCELLUS_TRY(encode_views(model, scratch.pixels, views, scratch, stop, queue));
    const RowPlace& place = places_.data[0];
    const bool in_place = place.is_whole(tokens);
    const TraceRange projecting(trace_, "project");
    OCELLUS_TRY(project_views(model, views, scratch,
                              in_place ? hidden.slice_rows(place.first, tokens) : scratch.projected, queue));
    if (in_place) count_ = 0;
  }
  for (int64_t i = 0; i < count_; ++i)
    copy_rows(scratch.projected.slice_rows(i * tokens, tokens), places_.data[i], hidden, queue);
  count_ = 0;
  return queue.status();
}

}  // namespace ocellus
