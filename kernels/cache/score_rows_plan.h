// Division of score_rows into tasks, and the layout of its scratch. A line is one row of one query head; the lines of a
// key/value head are numbered m = row * H / G + head of the group. Plain arithmetic, no vectors.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>

#include "kernels/attention/attend_rows_plan.h"
#include "kernels/cache/score_rows.h"
#include "platform/arena.h"
#include "platform/everywhere.h"
#include "platform/queue.h"
#include "platform/round_up.h"

namespace ocellus {

/// Fails the queue for arguments that would access memory out of bounds.
inline void check_score_rows(const ScoreRowsArgs& args, Queue& queue) {
  const int64_t rows = args.query.rows, given = args.scratch.rows * args.scratch.cols;
  const int64_t needed =
      score_rows_scratch_bytes(rows, args.row_count, args.query_heads, args.rows.head_dim, queue.traits());
  if (given < needed)
    queue.fail(OCELLUS_FAIL(Code::kInternal, "score_rows got %lld bytes of scratch instead of %lld",
                            static_cast<long long>(given), static_cast<long long>(needed)));
  if (rows > args.row_count)
    queue.fail(OCELLUS_FAIL(Code::kInternal, "score_rows cannot score %lld rows with the queries of %lld",
                            static_cast<long long>(args.row_count), static_cast<long long>(rows)));
}

/// First pass's result for a line: a slot of score s has the attention 2^(s - largest) * factor.
struct ScoreLine {
  float largest;
  float factor;
};

/// The factor of a line of which `sum` is the sum of 2^(s - largest), and that counts `weight` times.
OCELLUS_EVERYWHERE inline float score_factor(float largest, float sum, bool adds_one, float weight) {
  if (weight == 0) return 0;
  return weight / (adds_one ? sum + exp2f(-largest) : sum);
}

/// Calibration of a line's score u, both in powers of two: slope (u - low) + base.
struct ScoreSlope {
  float slope = 1;
  float low = 0;
  float base = 0;

  /// Computes it from the minimum and the maximum of the `slots` calibrated scores, in powers of two.
  OCELLUS_EVERYWHERE static ScoreSlope of(const KvCalibration& calibration, float low, float high, int64_t slots) {
    if (slots < 2) return {};
    const float least = low / std::numbers::log2e_v<float>, range = high / std::numbers::log2e_v<float> - least;
    const float slope = (range + calibration.tau_low - calibration.tau_high) / (range + 1e-8f);
    return {slope < 0 ? 0.0f : slope, low, (least - calibration.tau_low) * std::numbers::log2e_v<float>};
  }
};

/// All lines of `rows` rows: the beginning of every backend's scratch.
constexpr int64_t score_lines_bytes(int64_t rows, int32_t query_heads) {
  return aligned_bytes(rows * query_heads * static_cast<int64_t>(sizeof(ScoreLine)));
}

// CPU. Both passes hold up to kAttendColumns lines against kAttendSlots slots.

/// One thread's scratch: f32 matrices, rows by columns.
struct ScoreThreadScratch {
  float* across;    // [E, 64]: column operand of a product, queries in the first pass or keys in the second
  float* along;     // [64, E]: row operand, the other ones
  float* expanded;  // [64, E]: keys to be transposed
  float* scores;    // [64, 64]
  float* angles;    // [E]: cosines and sines of a shifted run
  float* maxima;    // [64], as all below: by line
  float* sums;      // by line, in the second pass by slot
  float* facts;     // by slot, in the second pass: in place of the maxima
  float* lows;      // minimum and maximum calibrated score
  float* highs;
  float* slopes;
  float* bases;

  static constexpr int64_t bytes(int64_t head_dim) {
    const int64_t dim = attend_padded(head_dim);
    const int64_t floats = (2 * kAttendSlots + kAttendColumns + 1) * dim + kAttendSlots * kAttendColumns;
    return aligned_bytes((floats + 6 * kAttendColumns) * static_cast<int64_t>(sizeof(float)));
  }

  ScoreThreadScratch(std::byte* memory, int64_t head_dim) {
    const int64_t dim = attend_padded(head_dim);
    across = reinterpret_cast<float*>(memory);
    along = across + dim * kAttendColumns;
    expanded = along + dim * kAttendSlots;
    scores = expanded + dim * kAttendSlots;
    angles = scores + kAttendSlots * kAttendColumns;
    facts = maxima = angles + dim;
    sums = maxima + kAttendColumns;
    lows = sums + kAttendColumns;
    highs = lows + kAttendColumns;
    slopes = highs + kAttendColumns;
    bases = slopes + kAttendColumns;
  }
};
static_assert(kAttendSlots == kAttendColumns);

// CUDA. A block of threads keeps a tile of kScoreTile lines (first pass) or slots (second pass) and iterates over all
// of the other kind, a stage at a time.

inline constexpr int32_t kScoreTile = 64;
/// Maximum blocks of the first pass that split the slots. A constant, independent of the device, so that the same
/// inputs give the same bits on every device.
inline constexpr int32_t kScoreSplitBlocks = 256;

constexpr int32_t score_stage_rows(int32_t tile_dim) { return tile_dim <= 128 ? 64 : tile_dim <= 256 ? 32 : 16; }

struct ScorePlan {
  int32_t tiles = 0;  // tiles of lines, per head
  int32_t splits = 1;
  int32_t stages_per_split = 0;
};
/// `lines`: per key/value head. `stages`: maximum stages of any tile.
constexpr ScorePlan plan_score_tiles(int64_t lines, int64_t heads, int64_t stages) {
  ScorePlan plan;
  plan.tiles = static_cast<int32_t>(divide_up(lines, kScoreTile));
  plan.stages_per_split = static_cast<int32_t>(stages);
  // Fewer than two stages per block do not pay for combining the pieces.
  const int64_t blocks = std::max<int64_t>(plan.tiles * heads, 1);
  const int64_t splits = std::min<int64_t>(kScoreSplitBlocks / blocks, stages / 2);
  if (splits < 2) return plan;
  plan.stages_per_split = static_cast<int32_t>(divide_up(stages, splits));
  plan.splits = static_cast<int32_t>(divide_up(stages, plan.stages_per_split));
  return plan;
}

/// A splitting block's result for a line in the first pass: its maximum score and its sum of weights, or of the
/// calibrated slots the minimum and the maximum score and their number, 2 meaning more.
struct ScorePart {
  float first;
  float second;
  int32_t slots;
};

/// CUDA's scratch after the lines: slopes, then parts. Only split tiles have parts, and those are few.
constexpr int64_t score_slopes_bytes(int64_t rows, int32_t query_heads) {
  return aligned_bytes(rows * query_heads * static_cast<int64_t>(sizeof(ScoreSlope)));
}
constexpr int64_t score_parts_bytes() {
  return aligned_bytes(int64_t{kScoreSplitBlocks} * kScoreTile * static_cast<int64_t>(sizeof(ScorePart)));
}

}  // namespace ocellus
