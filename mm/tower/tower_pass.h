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
  BlockRows(int64_t rows, const DeviceTraits& device)
      : mlp(device.block_rows(rows)), others(device.lean ? mlp : rows) {}
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
  return {m, s, batch, s.hidden.slice_rows(0, batch.rows()), BlockRows(batch.rows(), q.traits())};
}

// Steps of a pass. Those that say so use the number of its rows only, not the batch.

/// Cuts one frame of the views into scratch.wide, for rows [first, first + count).
void cut_frame(const TowerPass& pass, DeviceView<const float> pixels, int32_t frame, int64_t first, int64_t count,
               Queue& queue);
/// Embeds these rows' patches of one frame; those of the second are added to those of the first. Rows only.
void embed_frame(const TowerPass& pass, int32_t frame, int64_t first, int64_t count, Queue& queue);
/// Adds positions, and class rows if there are any, and normalises the rows if there is a norm for them.
void place_rows(const TowerPass& pass, int64_t first, int64_t count, Queue& queue);
/// Computes what the layers use of the places of patches.
void find_places(const TowerPass& pass, Queue& queue);

/// A layer's attention in three steps, for all rows at once: queries, keys and values (rows only); attention; and its
/// output, added to the rows (rows only).
void begin_attention(const TowerPass& pass, int32_t layer, Queue& queue);
void attend(const TowerPass& pass, int32_t layer, Queue& queue);
void end_attention(const TowerPass& pass, int32_t layer, Queue& queue);
/// Runs a layer's MLP. Rows only.
void run_mlp(const TowerPass& pass, int32_t layer, int64_t first, int64_t count, Queue& queue);

}  // namespace ocellus
