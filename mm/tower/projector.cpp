#include "mm/tower/projector.h"

#include <algorithm>

#include "kernels/linear/matmul.h"
#include "kernels/rows/layernorm.h"
#include "kernels/vision/patches.h"

namespace ocellus {
namespace {

constexpr float kJoinedEpsilon = 1e-5f;  // PyTorch's default

/// Rows of one block, one after the other in scratch.wide: the normalised joined rows, and those between the two maps.
class ProjectorRows {
 public:
  ProjectorRows(const VisionConfig& c, const VisionScratch& s, int64_t count) : wide_(s.wide), count_(count) {
    joined_cols_ = c.normalises_joined ? c.joined_width() : 0;
    middle_cols_ = c.projector_width;
  }
  ActivationView normed() const { return {wide_.data, count_, joined_cols_, joined_cols_, wide_.type}; }
  ActivationView middle() const {
    std::byte* const data = static_cast<std::byte*>(wide_.data) + count_ * joined_cols_ * wide_.value_bytes();
    return {data, count_, middle_cols_, middle_cols_, wide_.type};
  }

 private:
  const ActivationView& wide_;
  int64_t count_, joined_cols_, middle_cols_;
};

void project_block(const VisionModel& m, const VisionScratch& s, ActivationView joined, DeviceView<float> out,
                   Queue& q) {
  const ProjectorRows rows(m.config, s, joined.rows);
  const bool has_two = m.config.projector_width > 0;
  if (m.config.normalises_joined) {
    layernorm({.input = {joined.row(0), joined.rows, joined.cols, joined.stride},
               .weight = m.joined_norm.weight,
               .bias = m.joined_norm.bias,
               .epsilon = kJoinedEpsilon,
               .output = rows.normed()},
              q);
    joined = rows.normed();
  }
  matmul({.input = joined,
          .weights = {m.projection.weight},
          .biases = {m.projection.bias},
          .outputs = {has_two ? rows.middle() : ActivationView(out)},
          .activation = has_two ? Activation::kGeluErf : Activation::kNone,
          .scratch = s.op_scratch},
         q);
  if (has_two)
    matmul({.input = rows.middle(),
            .weights = {m.second_projection.weight},
            .biases = {m.second_projection.bias},
            .outputs = {out},
            .scratch = s.op_scratch},
           q);
}

}  // namespace

Status project_views(const VisionModel& m, int64_t views, const VisionScratch& s, DeviceView<float> out, Queue& q) {
  const VisionConfig& c = m.config;
  const int64_t rows = views * c.tokens_per_view(), block = q.traits().block_rows(rows);
  const ActivationView joined = s.joined.slice_rows(0, rows);
  shuffle_pixels({.input = s.hidden.slice_rows(0, views * c.rows_per_view()),
                  .views = views,
                  .grid = c.grid(),
                  .scale = c.scale_factor,
                  .lead = c.class_rows(),
                  .output = joined},
                 q);
  for (int64_t first = 0; first < rows; first += block) {
    const int64_t count = std::min(block, rows - first);
    project_block(m, s, joined.slice_rows(first, count), out.slice_rows(first, count), q);
  }
  return q.status();
}

}  // namespace ocellus
