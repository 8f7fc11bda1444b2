#include "runtime/waiting_views.h"

#include "mm/projector.h"

namespace ocellus {

Status WaitingViews::lay_out(const VisionConfig& c, int64_t capacity, const DeviceTraits& device, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kSession;
  OCELLUS_TRY(take_rows(sink, "waiting views", kLife, Phase::kNone, 1, capacity, &rows_));
  if (!device.is_cuda()) return {};
  return take_rows(sink, "pixels of waiting views", kLife, Phase::kNone, capacity * 3 * c.image_size, c.image_size,
                   &pixels_);
}

DeviceView<float> WaitingViews::next_pixels(const VisionConfig& c, const VisionScratch& scratch, int64_t views) const {
  if (pixels_.data == nullptr) return pixels_over_qkv(c, scratch);
  const int64_t rows_per_view = 3 * int64_t{c.image_size};
  return pixels_.slice_rows(count_ * rows_per_view, views * rows_per_view);
}

Status WaitingViews::encode(const VisionModel& model, const VisionScratch& scratch, DeviceView<float> hidden,
                            const StopSignal* stop, Queue& queue) {
  const VisionConfig& c = model.config;
  const int64_t views = count_, tokens = c.tokens_per_view();
  if (views == 0) return {};
  const bool collected = pixels_.data != nullptr;
  const DeviceView<float> pixels =
      collected ? pixels_.slice_rows(0, views * 3 * c.image_size) : pixels_over_qkv(c, scratch);
  const DeviceView<float> rows =
      collected ? scratch.projected.slice_rows(0, views * tokens) : hidden.slice_rows(rows_.data[0], tokens);
  OCELLUS_TRY(encode_views(model, pixels, views, scratch, stop, queue));
  OCELLUS_TRY(project_views(model, views, scratch, rows, queue));
  count_ = 0;
  if (!collected) return {};
  // Text stands between the views of a prompt, so that their rows do not lie together there.
  const int64_t view_bytes = tokens * hidden.cols * static_cast<int64_t>(sizeof(float));
  for (int64_t i = 0; i < views; ++i) queue.copy(hidden.row(rows_.data[i]), rows.row(i * tokens), view_bytes);
  return queue.status();
}

}  // namespace ocellus
