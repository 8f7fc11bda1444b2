#include "mm/tower/projector.h"

#include <algorithm>

#include "kernels/linear/elementwise.h"
#include "kernels/linear/matmul.h"
#include "kernels/vision/patches.h"

namespace ocellus {
namespace {

/// Rows of one block, one after the other in scratch.wide: the normalised joined rows, and those between the two maps.
class ProjectorRows {
 public:
  ProjectorRows(const Projector& p, const VisionScratch& s, const ActivationView& joined)
      : wide_(s.wide), count_(joined.rows) {
    normed_cols_ = p.joined_norm.used() ? joined.cols : 0;
    middle_cols_ = p.first.weight.rows;
  }
  ActivationView normed() const { return {wide_.data, count_, normed_cols_, normed_cols_, wide_.type}; }
  ActivationView middle() const {
    std::byte* const data = static_cast<std::byte*>(wide_.data) + count_ * normed_cols_ * wide_.value_bytes();
    return {data, count_, middle_cols_, middle_cols_, wide_.type};
  }

 private:
  const ActivationView& wide_;
  int64_t count_, normed_cols_, middle_cols_;
};

void project_block(const Projector& p, const VisionScratch& s, ActivationView joined, DeviceView<float> out, Queue& q) {
  const ProjectorRows rows(p, s, joined);
  const bool has_two = p.second.weight.rows > 0;
  if (p.joined_scale != nullptr)
    standardise_rows({.values = {joined.row(0), joined.rows, joined.cols, joined.stride},
                      .factor = p.joined_factor,
                      .bias = p.joined_bias,
                      .scale = p.joined_scale},
                     q);
  if (p.joined_norm.used()) {
    apply_norm(p.joined_norm, p.epsilon, {joined.row(0), joined.rows, joined.cols, joined.stride}, rows.normed(), q);
    joined = rows.normed();
  }
  matmul({.input = joined,
          .weights = {p.first.weight},
          .biases = {p.first.bias},
          .outputs = {has_two ? rows.middle() : ActivationView(out)},
          .activation = has_two ? Activation::kGeluErf : Activation::kNone,
          .scratch = s.op_scratch},
         q);
  if (has_two)
    matmul({.input = rows.middle(),
            .weights = {p.second.weight},
            .biases = {p.second.bias},
            .outputs = {out},
            .scratch = s.op_scratch},
           q);
}

/// The first joined rows of scratch.joined.
ActivationView joined_rows(const VisionModel& m, const Projector& p, const VisionScratch& s, int64_t rows) {
  const int64_t cols = m.config.joined_width();
  // A norm reads f32.
  return {s.joined.data, rows, cols, cols, p.joined_norm.used() ? ActivationType::kF32 : s.wide.type};
}

}  // namespace

void join_rows(const VisionModel& m, const Projector& p, const ViewBatch& batch, const VisionScratch& s, Queue& q) {
  const auto join = m.config.averages_patches ? average_patches : shuffle_pixels;
  join({.input = s.hidden.slice_rows(0, batch.rows()),
        .views = batch.views,
        .grid = batch.grid,
        .scale = batch.scale,
        .lead = batch.lead,
        .output = joined_rows(m, p, s, batch.tokens())},
       q);
}

void project_joined(const VisionModel& m, const Projector& p, const VisionScratch& s, DeviceView<float> out, Queue& q) {
  const int64_t rows = out.rows, block = q.traits().block_rows(rows);
  const ActivationView joined = joined_rows(m, p, s, rows);
  for (int64_t first = 0; first < rows; first += block) {
    const int64_t count = std::min(block, rows - first);
    project_block(p, s, joined.slice_rows(first, count), out.slice_rows(first, count), q);
  }
}

void project_rows(const VisionModel& m, const Projector& p, const ViewBatch& batch, const VisionScratch& s,
                  DeviceView<float> out, Queue& q) {
  join_rows(m, p, batch, s, q);
  project_joined(m, p, s, out.slice_rows(0, batch.tokens()), q);
}

Status project_views(const VisionModel& m, const ViewBatch& batch, const VisionScratch& s, DeviceView<float> out,
                     Queue& q) {
  project_rows(m, m.projector, batch, s, out.slice_cols(0, m.config.output_width), q);
  return q.status();
}

}  // namespace ocellus
