// Division of attend_step on CUDA, and the layout of its scratch. Plain arithmetic.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "platform/arena.h"
#include "platform/round_up.h"
#include "quant/kv_format.h"

namespace ocellus {

/// Warps of a block; each takes one of the next kAttendStepWarps tiles of the block's piece. Four for long heads, two
/// blocks to a multiprocessor, were measured: as fast at short contexts, 3% slower at 32,768 slots
/// (tools/bench/notes/cuda.md).
inline constexpr int64_t kAttendStepWarps = 8;
/// Maximum query heads of a block: the columns of one matrix product. The sums of long heads take the memory of two.
inline constexpr int64_t kAttendStepHeads = 8;
constexpr int64_t attend_step_heads(int64_t head_dim) {
  return head_dim <= 256 ? kAttendStepHeads : kAttendStepHeads / 2;
}
/// Number of tiles, two per warp, up to which several blocks do not pay.
inline constexpr int64_t kAttendStepAlone = 16;
/// Maximum tiles of a piece, so that long rows next to short ones do not keep a few blocks busy alone.
inline constexpr int64_t kAttendStepMostTiles = 256;
/// Batch-invariant: pieces of a row are enough for one row to use a device, and no more than their results are worth.
inline constexpr int64_t kAttendStepInvariantPieces = 32;
/// Scratch is planned before the device is known: larger devices are used as if they had this many multiprocessors.
inline constexpr int64_t kAttendStepMostMultiprocessors = 192;
/// Maximum blocks per resident block.
inline constexpr int64_t kAttendStepMostWaves = 4;

/// Blocks that a multiprocessor holds at a time, limited by registers.
constexpr int64_t attend_step_residents(int64_t head_dim, KvFormat packed_format) {
  return head_dim <= (is_packed(packed_format) ? 128 : 64) ? 2 : 1;
}

struct AttendStepPlan {
  int64_t heads = 1;       // query heads of a block; the last of a key/value head may have fewer
  int64_t head_tiles = 1;  // blocks that share a key/value head's tiles, each for other query heads
  int64_t pieces = 1;      // maximum pieces of a row's tiles

  constexpr int64_t groups(int64_t rows, int64_t kv_heads) const { return rows * kv_heads * head_tiles; }
};

constexpr OCELLUS_EVERYWHERE int64_t attend_step_fewest_pieces(int64_t most_tiles) {
  return most_tiles <= kAttendStepMostTiles ? 1 : divide_up(most_tiles, kAttendStepMostTiles);
}
/// Batch-invariant: the pieces of a row with this many tiles, which depend on nothing else.
constexpr OCELLUS_EVERYWHERE int64_t attend_step_invariant_pieces(int64_t tiles) {
  const int64_t wanted = divide_up(tiles, kAttendStepAlone), fewest = attend_step_fewest_pieces(tiles);
  const int64_t pieces = wanted < kAttendStepInvariantPieces ? wanted : kAttendStepInvariantPieces;
  return pieces < fewest ? fewest : pieces;
}

/// The number of pieces whose blocks, `resident` at a time, finish first if every row has most_tiles tiles: rounds of
/// one tile per warp, and the fixed cost of a block.
constexpr int64_t attend_step_pieces(int64_t groups, int64_t most_tiles, int64_t warps, int64_t resident) {
  constexpr int64_t kBlockRounds = 2;
  const int64_t fewest = attend_step_fewest_pieces(most_tiles);
  const int64_t most = std::max(fewest, divide_up(most_tiles, warps));
  int64_t best = fewest, best_rounds = INT64_MAX;
  for (int64_t waves = 1; waves <= kAttendStepMostWaves; ++waves) {
    const int64_t pieces = std::clamp(waves * resident / groups, fewest, most);
    const int64_t rounds =
        divide_up(groups * pieces, resident) * (divide_up(most_tiles, pieces * warps) + kBlockRounds);
    if (rounds < best_rounds) {
      best = pieces;
      best_rounds = rounds;
    }
  }
  return best;
}

constexpr AttendStepPlan plan_attend_step(int64_t rows, int64_t most_tiles, int64_t query_heads, int64_t kv_heads,
                                          int64_t head_dim, int64_t multiprocessors,
                                          KvFormat packed_format = KvFormat::kF16, bool batch_invariant = false) {
  AttendStepPlan plan;
  const int64_t group = query_heads / kv_heads;
  plan.heads = std::min(group, attend_step_heads(head_dim));
  plan.head_tiles = divide_up(group, attend_step_heads(head_dim));
  if (batch_invariant) {
    plan.pieces = attend_step_invariant_pieces(most_tiles);
    return plan;
  }
  const int64_t resident =
      std::min(multiprocessors, kAttendStepMostMultiprocessors) * attend_step_residents(head_dim, packed_format);
  plan.pieces = attend_step_pieces(plan.groups(rows, kv_heads), most_tiles, kAttendStepWarps, resident);
  return plan;
}

/// Calibration data of the packed slots seen by a group's blocks, as words that are zero if nothing was seen
/// (kernels/attention/step/score_ranges.cuh): by head the maximum score and the minimum, then the number of slots.
inline constexpr int64_t kAttendStepRangeWords = 2 * kAttendStepHeads + 1;

/// Scratch begins with every block's result and ends with the counters of finished pieces and, if tiles may be packed,
/// the ranges of scores after them. So the part that must be zero between calls has the same place whatever a call's
/// number of rows: a call with fewer rows uses the end of it.
struct AttendStepScratch {
  /// Per block: per head the weighted sums of values [E], the maximum score and the sum of the weights.
  static constexpr int64_t block_floats(int64_t heads, int64_t head_dim) { return heads * (head_dim + 2); }
  static constexpr int64_t blocks_bytes(int64_t blocks, int64_t heads, int64_t head_dim) {
    return aligned_bytes(blocks * block_floats(heads, head_dim) * static_cast<int64_t>(sizeof(float)));
  }
  /// Bytes that must be zero between calls.
  static constexpr int64_t counters_bytes(int64_t groups, KvFormat packed_format = KvFormat::kF16) {
    const int64_t words = is_packed(packed_format) ? 1 + kAttendStepRangeWords : 1;
    return aligned_bytes(groups * words * static_cast<int64_t>(sizeof(uint32_t)));
  }
  static constexpr int64_t bytes(const AttendStepPlan& plan, int64_t rows, int64_t kv_heads, int64_t head_dim,
                                 KvFormat packed_format = KvFormat::kF16) {
    const int64_t groups = plan.groups(rows, kv_heads);
    return blocks_bytes(groups * plan.pieces, plan.heads, head_dim) + counters_bytes(groups, packed_format);
  }
  /// Enough for any device, for any smaller number of rows and tiles, and for calls without packed tiles.
  static constexpr int64_t most_bytes(int64_t rows, int64_t most_tiles, int64_t query_heads, int64_t kv_heads,
                                      int64_t head_dim, KvFormat packed_format = KvFormat::kF16,
                                      bool batch_invariant = false) {
    const AttendStepPlan plan =
        plan_attend_step(rows, most_tiles, query_heads, kv_heads, head_dim, 1, packed_format, batch_invariant);
    const int64_t groups = plan.groups(rows, kv_heads);
    if (batch_invariant) return bytes(plan, rows, kv_heads, head_dim, packed_format);
    const int64_t resident = kAttendStepMostMultiprocessors * attend_step_residents(head_dim, packed_format);
    const int64_t blocks =
        std::min(groups * std::max<int64_t>(1, divide_up(most_tiles, kAttendStepWarps)),
                 std::max(groups * attend_step_fewest_pieces(most_tiles), kAttendStepMostWaves * resident));
    return blocks_bytes(blocks, plan.heads, head_dim) + counters_bytes(groups, packed_format);
  }
};

}  // namespace ocellus
