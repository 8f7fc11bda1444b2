#include <algorithm>

#include "kernels/linear/matmul.h"
#include "kernels/rows/class_rows.h"
#include "mm/tower/projector.h"

namespace ocellus {

Status project_mlp(const VisionModel& m, int64_t views, const VisionScratch& s, DeviceView<float> out, Queue& q) {
  const VisionConfig& c = m.config;
  const int64_t rows = views * c.tokens_per_view(), block = q.traits().block_rows(rows);
  const ActivationView patches = s.joined.slice_rows(0, rows);
  drop_class_rows(
      {.input = s.hidden.slice_rows(0, views * c.rows_per_view()), .patches = c.patch_count(), .output = patches}, q);
  for (int64_t first = 0; first < rows; first += block) {
    const int64_t count = std::min(block, rows - first);
    const ActivationView wide(s.wide.data, count, c.projector_width, c.projector_width, s.wide.type);
    matmul({.input = patches.slice_rows(first, count),
            .weights = {m.projection.weight},
            .biases = {m.projection.bias},
            .outputs = {wide},
            .activation = Activation::kGeluErf,
            .scratch = s.op_scratch},
           q);
    matmul({.input = wide,
            .weights = {m.second_projection.weight},
            .biases = {m.second_projection.bias},
            .outputs = {out.slice_rows(first, count)},
            .scratch = s.op_scratch},
           q);
  }
  return q.status();
}

}  // namespace ocellus
