#include "mm/tower/vision_graphs.h"

#include <algorithm>

namespace ocellus {

Status VisionGraphs::record(const VisionModel& model, DeviceView<const float> pixels, int64_t capacity,
                            const VisionScratch& scratch, Queue& queue) {
  const VisionConfig& c = model.config;
  const int32_t parts = part_count(c.layer_count);
  capacity_ = capacity;
  for (shapes_ = 1; views_of(shapes_ - 1) < capacity;) ++shapes_;
  OCELLUS_TRY(parts_.allocate(shapes_, parts));
  for (int32_t shape = 0; shape < shapes_; ++shape) {
    const ViewBatch batch(c, views_of(shape), c.view_size());
    const DeviceView<const float> input = pixels.slice_rows(0, batch.views * 3 * c.image_size);
    const auto enqueue = [&](int32_t part) {
      LayerRange layers{.first = part * kLayersPerPart};
      if (part + 1 < parts) layers.end = layers.first + kLayersPerPart;
      (void)encode_views({.model = model,
                          .pixels = input,
                          .batch = batch,
                          .scratch = scratch,
                          .out = scratch.projected.slice_rows(0, batch.tokens()),
                          .layers = layers},
                         queue);
    };
    // Run once before recording: a library's choices and loads at a first call cannot be recorded.
    for (int32_t part = 0; part < parts; ++part) enqueue(part);
    for (int32_t part = 0; part < parts; ++part) OCELLUS_TRY(parts_.record(shape, part, queue, [&] { enqueue(part); }));
  }
  return queue.finish();
}

Status VisionGraphs::run(int64_t views, const StopSignal* stop, Queue& queue) const {
  int32_t shape = 0;
  while (shape + 1 < shapes_ && views_of(shape) < views) ++shape;
  return parts_.run(shape, stop, queue);
}

}  // namespace ocellus
