#pragma once

#include "kernels/base/patch_grid.h"
#include "kernels/rows/store_kv.h"
#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// Pools what a layer of a tower tells of one view's patches for the rows that they are joined to: the attention that
/// they receive, and their keys. With the s x s patches i of row t, numbered as in JoinPatchesArgs,
///
///   out[t][0]     = mean over the patches and the H heads h of  scores[h][lead + i] / queries
///   out[t][1 + e] = mean over the patches and the heads of  keys[h][lead + i][e]
///
/// Shapes    scores [H, lead + patches] f32: sums over the attention of `queries` rows, as score_rows gives them; keys
///           [H, lead + patches, E] f16, values are not read; out [patches / s^2, 1 + E] f32 (rows may be strided)
/// Types     sums in f32
/// Divisible E by 8; lines and columns of the grid by s
/// Errors    none: NaN stays where it is
struct PoolAttentionArgs {
  DeviceView<const float> scores;
  int64_t queries = 1;
  KvLayerRows rows;
  PatchGrid grid;
  int32_t scale = 1;
  int32_t lead = 0;
  DeviceView<float> output;

  /// Returns row t's patch number `part` of s x s, among all rows of the view.
  OCELLUS_EVERYWHERE int64_t patch(int64_t t, int32_t part) const {
    const auto across = grid.cols / scale, cell = static_cast<int32_t>(t);
    return lead + grid.index({cell / across * scale + part / scale, cell % across * scale + part % scale});
  }
};
void pool_attention(const PoolAttentionArgs& args, Queue& queue);

}  // namespace ocellus
