// Shared by the parts of a vision tower during one pass.
#pragma once

#include <algorithm>

#include "kernels/linear/matmul.h"
#include "mm/tower/vision_tower.h"

namespace ocellus {

/// Number of rows that go through a part of the tower together. A GPU takes all at once. So does the CPU except in the
/// MLP, whose rows are the widest: fewer and larger products let its threads wait less for each other (4 % of the
/// time). Lean devices take small blocks throughout.
struct BlockRows {
  BlockRows(const ViewBatch& batch, const DeviceTraits& device)
      : mlp(device.block_rows(batch.rows())), others(device.lean ? mlp : batch.rows()) {}
  int64_t mlp, others;
};

/// State shared by the layers of one call.
struct TowerPass {
  const VisionModel& model;
  const VisionScratch& scratch;
  const ViewBatch& batch;
  DeviceView<float> hidden;  // [rows of the batch, D]
  BlockRows blocks;

  /// Calls visit(first, count) for all rows in blocks of `block` rows.
  template <class Visit>
  void for_each_block(int64_t block, Visit visit) const {
    for (int64_t first = 0; first < hidden.rows; first += block) visit(first, std::min(block, hidden.rows - first));
  }
  ActivationView normed(int64_t rows) const { return scratch.normed_or_mixed.slice_rows(0, rows); }
  ActivationView wide(int64_t rows, int64_t cols) const {
    return {scratch.wide.data, rows, cols, cols, scratch.wide.type};
  }
  DeviceView<float> angles() const { return scratch.angles.slice_rows(0, hidden.rows); }
};

inline TowerPass tower_pass(const VisionModel& m, const ViewBatch& batch, const VisionScratch& s, const Queue& q) {
  return {m, s, batch, s.hidden.slice_rows(0, batch.rows()), BlockRows(batch, q.traits())};
}

}  // namespace ocellus
