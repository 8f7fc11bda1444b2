// Tiled attention, first part: division of a call into tiles.
//
// A block of four warps takes one tile of query rows of one key/value head; a warp takes 16 or 32 rows of it. Slots
// come in stages of 64 (or 32). A stage is four (or two) pieces of kTileSlots slots: runs of the cache first, then the
// chunk's own rows. Incomplete pieces are padded with zeros and masked, so a run may end anywhere.
#pragma once

#include "kernels/attention/attend_rows.h"
#include "kernels/attention/attend_rows_plan.h"
#include "kernels/attention/attend_tile.cuh"
#include "kernels/base/device_limits.cuh"
#include "kernels/base/device_math.cuh"
#include "platform/round_up.h"

namespace ocellus::cuda {

inline constexpr int kRowsWarps = 4;
inline constexpr int kRowsThreads = kRowsWarps * kWarp;
inline constexpr int kMatrix = 8;     // side of the matrices in fragments
inline constexpr int kFragment = 16;  // rows and depth of one product
static_assert(kTileSlots == kFragment);

/// Calibration of runs' scores (KvCalibration).
struct RowsCalibration {
  float* rows;       // null: none. [T, 2 H]: per query row and head the pair of attend_rows_calibrate.cuh
  int64_t stride;    // between query rows
  KvCalibration by;  // in natural units
};

/// One call, as passed to the kernels.
struct RowsWork {
  const __half* query;
  int64_t query_stride;
  __half* output;
  int64_t output_stride;
  const __half* keys;
  const __half* values;
  int64_t head_stride, sequence_stride;
  int row_stride;
  const KvRun* runs;
  int run_count;
  int layer;
  int head_dim;
  int group;
  int kv_heads;
  int heads;              // key/value heads of all sequences
  int tiles;              // per head
  int rows;               // rows of one sequence
  int first_row;          // first row in the chunk
  int row_count;          // rows of the chunk
  bool causal;            // row t sees runs, and own rows unless they are listed, as far as chunk row first_row + t
  const RowSpan* spans;   // one per row, if own rows are listed
  const float* row_bias;  // by chunk row, in natural units; null: none
  int stages_per_split;
  float root;       // sqrt(E): scores are q . k here
  float scale;      // scale of the scores, which are powers of two: exp(x) = 2^(x log2 e)
  float* partials;  // null: a block sees all slots and writes to output
  RowsCalibration calibration;
};

/// A run in shared memory.
struct RingRun {
  KvRun run;
  int live;  // slots of the block's head, known once their copying has begun
};

/// A run as masks see it.
struct PieceSlots {
  int live;
  int visible_from;
};

/// Tile sizes of one kernel, in rows, slots and halves.
template <int kDim_, int kRowTiles_, bool kListed_ = false>
struct RowsTile {
  static constexpr int kDim = kDim_;
  static constexpr int kValueDim = kDim;
  static constexpr int kThreads = kRowsThreads;
  static constexpr bool kHasRuns = true;        // or may have
  static constexpr bool kListed = kListed_;     // own rows that a row sees are listed
  static constexpr int kRowTiles = kRowTiles_;  // tiles of 16 query rows per warp
  static constexpr int kWarpRows = kFragment * kRowTiles;
  static constexpr int kRows = kRowsWarps * kWarpRows;
  static constexpr int kSlots = attend_stage_slots(kDim);
  static constexpr int kPieces = kSlots / kTileSlots;
  // Rows are an odd number of 16-byte units apart: eight rows of a matrix then lie in different banks.
  static constexpr int kStride = kDim + 8;
  static constexpr int kRowUnits = kDim / 8;           // units of 16 bytes
  static constexpr int kStage = 2 * kSlots * kStride;  // keys, then values
  // True if queries stay in registers. They arrive through the second stage's memory, which is not in use yet;
  // otherwise they have a place of their own, after the stages.
  static constexpr bool kKeepsQueries = kRowTiles == 1 || kDim <= 64;
  static constexpr int kQueryAt = kKeepsQueries ? kStage : 2 * kStage;
  static constexpr int kHalves = kQueryAt + (kKeepsQueries ? kStage : kRows * kStride);
  static constexpr int kBlocks = kRowTiles == 1 && kDim <= 80 ? 3 : 2;  // blocks per multiprocessor, limited by
                                                                        // registers
  static constexpr int kRing = 3;
  static constexpr int kRunBytes = kRing * kPieces * static_cast<int>(sizeof(RingRun));
  static constexpr int64_t kSplitFloats = attend_split_floats(kDim);
  static constexpr int kSharedBytes = kHalves * 2 + kRunBytes;
  static_assert(!kKeepsQueries || kRows * kStride <= kStage);
  static_assert(kSharedBytes <= kLeastSharedBytes);

  /// The i-th 16-byte unit to copy: its slot, its place in the slot, and its destination.
  __device__ static int row_of_unit(int i) { return i / kRowUnits; }
  __device__ static int place_of_unit(int i) { return i % kRowUnits; }
  __device__ static int unit_offset(int row, int unit) { return row * kStride + unit * 8; }
};

/// Place of a block: its tile, its head, and its part of the slots.
struct TilePlace {
  int tile_row;  // first query row of the tile, heads of the group counted
  int rows;      // query rows of the head
  int kv_head;
  int64_t sequence;
  const __half* keys;  // own row 0
  const __half* values;
  int visible;  // own rows that the tile's last row sees
  int stages_begin, stages_end;
};

/// Finds the place of block number `block`.
__device__ inline void place_tile(const RowsWork& work, int block, int tile_rows, TilePlace& place) {
  // Late causal tiles see the most slots and go first. Otherwise tiles that see the same slots run side by side.
  const int head = work.causal ? block % work.heads : block / work.tiles;
  const int tile = work.causal ? work.tiles - 1 - block / work.heads : block % work.tiles;
  place.tile_row = tile * tile_rows;
  place.rows = work.rows * work.group;
  place.kv_head = head % work.kv_heads;
  place.sequence = head / work.kv_heads;
}

/// Returns the first slot of a stage as an own row; negative if it begins with a run.
template <class T>
__device__ int own_row_of(const RowsWork& work, int stage) {
  return (stage * T::kPieces - (T::kHasRuns ? work.run_count : 0)) * kTileSlots;
}

/// True if a piece that would begin at own row `own` is a run.
template <class T>
__device__ bool is_run(int own) {
  return T::kHasRuns && own < 0;
}

/// Number of stages for all runs and `visible` own rows.
template <class T>
__device__ int stages_of(const RowsWork& work, int visible) {
  const int pieces = (T::kHasRuns ? work.run_count : 0) + divide_up(visible, kTileSlots);
  return divide_up(pieces, T::kPieces);
}

template <class T>
__device__ TilePlace find_place(const RowsWork& work, int block) {
  TilePlace place;
  place_tile(work, block, T::kRows, place);
  const int64_t own = place.sequence * work.sequence_stride + place.kv_head * work.head_stride;
  place.keys = work.keys + own;
  place.values = work.values + own;
  const int last_row = (min(place.tile_row + T::kRows, place.rows) - 1) / work.group;
  place.visible = work.causal ? work.first_row + last_row + 1 : work.row_count;
  place.stages_begin = static_cast<int>(blockIdx.y) * work.stages_per_split;
  place.stages_end = min(stages_of<T>(work, place.visible), place.stages_begin + work.stages_per_split);
  return place;
}

/// Query row m of a head sees own rows [0, limit), where they are not listed. Rows after the last one are computed like
/// it and not written.
__device__ inline int limit_of(const RowsWork& work, const TilePlace& place, int m) {
  return work.causal ? work.first_row + min(m, place.rows - 1) / work.group + 1 : work.row_count;
}

/// Own rows that query row m of a head sees.
__device__ inline RowSpan span_of(const RowsWork& work, const TilePlace& place, int m) {
  if (work.spans == nullptr) return {0, limit_of(work, place, m)};
  return work.spans[min(m, place.rows - 1) / work.group];
}

/// Corrects the place where own rows are listed; the list may be read from now on. Where no run comes first, stages
/// that no row of the tile sees are left out.
template <class T>
__device__ void bound_place(const RowsWork& work, TilePlace& place) {
  if (T::kListed && work.spans != nullptr) {
    place.visible = span_of(work, place, place.tile_row + T::kRows - 1).end;
    if (work.run_count == 0)
      place.stages_begin = max(place.stages_begin, span_of(work, place, place.tile_row).begin / T::kSlots);
    place.stages_end = min(stages_of<T>(work, place.visible), static_cast<int>(blockIdx.y + 1) * work.stages_per_split);
  }
}

/// Query row m of a head, and the same row of the output: row m / group of query head m % group of the group.
__device__ inline int64_t row_offset(const RowsWork& work, const TilePlace& place, int m, int64_t stride) {
  const int row = m / work.group;
  const int head = place.kv_head * work.group + m - row * work.group;
  return (place.sequence * work.rows + row) * stride + static_cast<int64_t>(head) * work.head_dim;
}

}  // namespace ocellus::cuda
