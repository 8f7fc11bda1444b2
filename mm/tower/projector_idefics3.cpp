#include <algorithm>

#include "kernels/linear/matmul.h"
#include "kernels/vision/patches.h"
#include "mm/tower/projector.h"

namespace ocellus {

Status project_idefics3(const VisionModel& m, int64_t views, const VisionScratch& s, DeviceView<float> out, Queue& q) {
  const VisionConfig& c = m.config;
  const int64_t rows = views * c.tokens_per_view(), block = q.traits().block_rows(rows);
  const ActivationView joined = s.joined.slice_rows(0, rows);
  shuffle_pixels({.input = s.hidden.slice_rows(0, views * c.patch_count()),
                  .views = views,
                  .grid = c.grid(),
                  .scale = c.scale_factor,
                  .output = joined},
                 q);
  for (int64_t first = 0; first < rows; first += block) {
    const int64_t count = std::min(block, rows - first);
    matmul({.input = joined.slice_rows(first, count),
            .weights = {m.projection.weight},
            .outputs = {out.slice_rows(first, count)},
            .scratch = s.op_scratch},
           q);
  }
  return q.status();
}

}  // namespace ocellus
