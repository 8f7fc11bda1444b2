// Division of attend_rows into tasks, and the layout of its scratch: first on the CPU, then on CUDA. Plain arithmetic,
// no vectors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/base/kv_run.h"
#include "platform/arena.h"
#include "platform/round_up.h"

namespace ocellus {

/// Slots whose keys and values are expanded to f32 at a time.
inline constexpr int64_t kAttendSlots = 64;
/// Maximum columns of one query block. A column is one query row of one query head; all heads of a group are adjacent.
inline constexpr int64_t kAttendColumns = 64;
/// Columns and head dimensions are padded to this many floats, the widest vector.
inline constexpr int64_t kAttendPadding = 16;

constexpr int64_t attend_padded(int64_t count) { return round_up(count, kAttendPadding); }

/// One task per (key/value head, query block): all query heads of the group, `rows` query rows.
struct AttendRowsPlan {
  int64_t group = 1;   // query heads per key/value head
  int64_t rows = 1;    // query rows of a block; the last block may have fewer
  int64_t blocks = 0;  // query blocks per key/value head
};

/// Wide blocks reuse expanded keys most; with few rows, blocks are narrowed until every thread has work. Results do not
/// depend on the width.
inline AttendRowsPlan plan_attend_rows(int64_t query_rows, int64_t query_heads, int64_t kv_heads, int64_t threads) {
  AttendRowsPlan plan;
  plan.group = query_heads / kv_heads;
  for (int64_t columns = kAttendColumns; columns >= kAttendPadding; columns /= 2) {
    plan.rows = std::max<int64_t>(1, columns / plan.group);
    plan.blocks = divide_up(query_rows, plan.rows);
    if (threads == 1 || plan.blocks * kv_heads >= 2 * threads) break;
  }
  return plan;
}

/// One thread's scratch: f32 matrices, rows by columns.
struct AttendRowsScratch {
  float* queries;  // [E, columns]: transposed, scaled
  float* keys;     // [kAttendSlots, E]
  float* values;   // [kAttendSlots, E] and one vector more, read but unused if E is no multiple of the vector
  float* weights;  // [kAttendSlots, columns]: scores, then their exponentials
  float* mixed;    // [columns, padded E]: weighted sums of values
  float* maxima;   // [columns]: maximum score so far
  float* sums;     // [columns]: sum of weights so far
  float* rescale;  // [columns]: factor for earlier sums after this block's new maximum
  float* base;     // [columns]: calibrated scores are base + slope * score
  float* slope;    // [columns]

  static constexpr int64_t bytes(int64_t head_dim) {
    const int64_t dim = attend_padded(head_dim);
    const int64_t matrices = dim * kAttendColumns * 2 + dim * kAttendSlots * 2 + kAttendSlots * kAttendColumns;
    const int64_t floats = matrices + kAttendPadding + 5 * kAttendColumns;
    return aligned_bytes(floats * static_cast<int64_t>(sizeof(float)));
  }

  AttendRowsScratch(std::byte* memory, int64_t head_dim) {
    const int64_t dim = attend_padded(head_dim);
    queries = reinterpret_cast<float*>(memory);
    keys = queries + dim * kAttendColumns;
    weights = keys + dim * kAttendSlots;
    mixed = weights + kAttendSlots * kAttendColumns;
    maxima = mixed + dim * kAttendColumns;
    sums = maxima + kAttendColumns;
    rescale = sums + kAttendColumns;
    base = rescale + kAttendColumns;
    slope = base + kAttendColumns;
    values = slope + kAttendColumns;
  }
};

// CUDA. A block of threads takes a tile of query rows of one key/value head; a query row of a tile is one row of one
// query head of the group, with all heads of a row adjacent. The key axis is a list of pieces of kTileSlots slots (the
// runs, then the chunk's own rows), taken several at a time: a stage.

/// Query rows of a tile; narrow tiles fill the device with fewer rows, and their slots may be split.
inline constexpr int32_t kAttendNarrowRows = 64;
inline constexpr int32_t kAttendWideRows = 128;
/// Maximum number of blocks that split the slots; each needs scratch. A constant, independent of the device, so that
/// the same inputs give the same bits on every device.
inline constexpr int32_t kAttendSplitBlocks = 128;
constexpr int32_t attend_split_blocks(bool lean) { return lean ? kAttendSplitBlocks / 16 : kAttendSplitBlocks; }

/// Head sizes that have kernels; others are padded with zeros to the next. Longer ones than the last have one of their
/// own, without scratch.
inline constexpr int32_t kAttendLongestTile = 256;
constexpr int32_t attend_tile_dim(int32_t head_dim) {
  for (const int32_t dim : {32, 64, 80, 96, 128})
    if (head_dim <= dim) return dim;
  return kAttendLongestTile;
}
/// Slots of a stage: two stages and a tile of queries must fit into 99 KiB of shared memory, and the scores of a stage
/// into registers besides the sums.
constexpr int32_t attend_stage_slots(int32_t tile_dim) { return tile_dim < 128 ? 64 : 32; }

struct AttendTilesPlan {
  int32_t rows = kAttendNarrowRows;  // per tile
  int32_t tiles = 0;                 // per head
  int32_t splits = 1;
  int32_t stages_per_split = 0;
};

/// `query_rows` and `heads`: rows of a head counting all query heads of its group, and key/value heads counting all
/// sequences. `stages`: maximum stages of any tile. Splits depend on the device only by `lean`, and so do results.
constexpr AttendTilesPlan plan_attend_tiles(int64_t query_rows, int64_t heads, int64_t stages, int32_t tile_dim,
                                            int32_t multiprocessors, bool lean) {
  const auto tiles_of = [&](int64_t rows) { return static_cast<int32_t>(divide_up(query_rows, rows)); };
  AttendTilesPlan plan;
  plan.tiles = tiles_of(kAttendNarrowRows);
  plan.stages_per_split = static_cast<int32_t>(stages);
  // Fewer than two stages per block do not pay for combining the pieces.
  const int64_t splits =
      std::min<int64_t>(attend_split_blocks(lean) / std::max<int64_t>(plan.tiles * heads, 1), stages / 2);
  if (splits >= 2 && stages >= 8) {
    plan.stages_per_split = static_cast<int32_t>(divide_up(stages, splits));
    plan.splits = static_cast<int32_t>(divide_up(stages, plan.stages_per_split));
  } else if (tile_dim <= 128 && tiles_of(kAttendWideRows) * heads >= 2 * int64_t{multiprocessors}) {
    plan.rows = kAttendWideRows;
    plan.tiles = tiles_of(kAttendWideRows);
  }
  return plan;
}

/// Result of one splitting block, in floats: unscaled sums of values, then the maximum score and the sum of weights of
/// every row.
constexpr int64_t attend_split_floats(int32_t tile_dim) { return int64_t{kAttendNarrowRows} * (tile_dim + 2); }
constexpr int64_t attend_split_scratch_bytes(int32_t head_dim, bool lean) {
  return aligned_bytes(attend_split_blocks(lean) * attend_split_floats(attend_tile_dim(head_dim)) * 4);
}

}  // namespace ocellus
