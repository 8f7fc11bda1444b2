#pragma once

#include "kernels/rows/store_kv.h"
#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// Scores rows by how unlike the others their keys are (KeyDiff, arXiv 2504.15364). With the anchor
/// a_g = sum over rows of k_gj / |k_gj|
///
///   scores[g][j] = 1 - cos(k_gj, a_g), from 0 for a key like the others to 2
///
/// A key that is all zeros has the cosine 0, and no part in the anchor.
///
/// Shapes    scores [G, >= row_count]; rows: keys [G, capacity, E], values are not read; anchors [G * kParts, E]
/// scratch Types     keys f16; scores and sums f32. Each of kParts equal parts of the rows is summed, then the parts,
/// in order Divisible E by 8 Special   NaN stays NaN, in all rows of its head
struct ScoreKeysArgs {
  static constexpr int64_t kParts = 16;

  DeviceView<float> scores = {};
  KvLayerRows rows = {};
  int64_t row_count = 0;
  DeviceView<float> anchors = {};

  OCELLUS_EVERYWHERE int64_t part_begin(int64_t part) const { return row_count * part / kParts; }
};
void score_keys(const ScoreKeysArgs& args, Queue& queue);

}  // namespace ocellus
