// Tiled attention, first part: how a call is cut into tiles, and how a tile's queries, keys and values come into shared
// memory.
//
// A block of four warps takes one tile of query rows of one key/value head; a warp takes 16 or 32 rows of it. Slots
// come in stages of 64 (or 32). A stage is four (or two) pieces of kTileSlots slots: runs of the cache first, then the
// chunk's own rows. Pieces that are not full are padded with zeros and masked, so a run may end anywhere.
#pragma once

#include "kernels/attend_rows_plan.h"
#include "kernels/attend_tile.cuh"
#include "kernels/device_math.cuh"

namespace ocellus::cuda {

inline constexpr int kRowsWarps = 4;
inline constexpr int kRowsThreads = kRowsWarps * kWarp;
inline constexpr int kMatrix = 8;     // side of the matrices that fragments are made of
inline constexpr int kFragment = 16;  // rows and depth of one product
static_assert(kTileSlots == kFragment);

/// One call, as the kernels see it.
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
  int heads;      // key/value heads of all sequences
  int tiles;      // per head
  int rows;       // of one sequence
  int first_row;  // of the chunk
  int row_count;  // of the chunk
  bool causal;
  int stages_per_split;
  float scale;      // of the scores, which are powers of two: exp(x) = 2^(x log2 e)
  float* partials;  // null: a block sees all slots and writes to output
};

/// How one kernel cuts tiles: sizes in rows, slots and halves.
template <int kDim_, int kRowTiles_>
struct RowsTile {
  static constexpr int kDim = kDim_;
  static constexpr int kRowTiles = kRowTiles_;  // of 16 query rows, per warp
  static constexpr int kWarpRows = kFragment * kRowTiles;
  static constexpr int kRows = kRowsWarps * kWarpRows;
  static constexpr int kSlots = attend_stage_slots(kDim);
  static constexpr int kPieces = kSlots / kTileSlots;
  // Rows start an odd number of 16-byte units apart: eight rows of a matrix then lie in different banks.
  static constexpr int kStride = kDim + 8;
  static constexpr int kRowUnits = kDim / 8;           // of 16 bytes
  static constexpr int kStage = 2 * kSlots * kStride;  // keys, then values
  // Queries stay in registers where there is room. They arrive through the second stage's memory, which is not in use
  // yet; the others have a place of their own, behind the stages.
  static constexpr bool kKeepsQueries = kRowTiles == 1 || kDim <= 64;
  static constexpr int kQueryAt = kKeepsQueries ? kStage : 2 * kStage;
  static constexpr int kHalves = kQueryAt + (kKeepsQueries ? kStage : kRows * kStride);
  static constexpr int kBlocks = kRowTiles == 1 && kDim <= 80 ? 3 : 2;  // at a time, as registers go
  static constexpr int kRunBytes = 3 * kPieces * static_cast<int>(sizeof(KvRun));
  static constexpr int64_t kSplitFloats = attend_split_floats(kDim);
  static constexpr int kSharedBytes = kHalves * 2 + kRunBytes;
  static_assert(!kKeepsQueries || kRows * kStride <= kStage);
  static_assert(kSharedBytes <= 99 * 1024);
};

/// Where a block stands: its tile, its head, and its part of the slots.
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

/// Where block number `block` works.
__device__ inline void place_tile(const RowsWork& work, int block, int tile_rows, TilePlace& place) {
  // Late causal tiles see the most slots and go first. Otherwise tiles that see the same slots run side by side.
  const int head = work.causal ? block % work.heads : block / work.tiles;
  const int tile = work.causal ? work.tiles - 1 - block / work.heads : block % work.tiles;
  place.tile_row = tile * tile_rows;
  place.rows = work.rows * work.group;
  place.kv_head = head % work.kv_heads;
  place.sequence = head / work.kv_heads;
}

template <class T>
__device__ TilePlace find_place(const RowsWork& work) {
  TilePlace place;
  place_tile(work, static_cast<int>(blockIdx.x), T::kRows, place);
  const int64_t own = place.sequence * work.sequence_stride + place.kv_head * work.head_stride;
  place.keys = work.keys + own;
  place.values = work.values + own;
  const int last_row = (min(place.tile_row + T::kRows, place.rows) - 1) / work.group;
  place.visible = work.causal ? work.first_row + last_row + 1 : work.row_count;
  const int pieces = work.run_count + (place.visible + kTileSlots - 1) / kTileSlots;
  const int stages = (pieces + T::kPieces - 1) / T::kPieces;
  place.stages_begin = static_cast<int>(blockIdx.y) * work.stages_per_split;
  place.stages_end = min(stages, place.stages_begin + work.stages_per_split);
  return place;
}

/// Query row m of a head, and the same row of the output: row m / group of query head m % group of the group.
__device__ inline int64_t row_offset(const RowsWork& work, const TilePlace& place, int m, int64_t stride) {
  const int row = m / work.group;
  const int head = place.kv_head * work.group + m - row * work.group;
  return (place.sequence * work.rows + row) * stride + static_cast<int64_t>(head) * work.head_dim;
}

template <class T>
__device__ void fetch_queries(const RowsWork& work, const TilePlace& place, __half* to) {
  for (int i = static_cast<int>(threadIdx.x); i < T::kRows * T::kRowUnits; i += kRowsThreads) {
    const int row = i / T::kRowUnits, unit = i % T::kRowUnits;
    const bool exists = place.tile_row + row < place.rows && unit * 8 < work.head_dim;
    const __half* from = work.query;
    if (exists) from += row_offset(work, place, place.tile_row + row, work.query_stride) + unit * 8;
    copy_16_async(to + row * T::kStride + unit * 8, from, exists ? 16 : 0);
  }
}

/// Descriptions of a stage's runs are fetched two stages ahead, and kept in a ring of three.
template <class T>
__device__ const KvRun* runs_of(const KvRun* ring, int stage) {
  return ring + stage % 3 * T::kPieces;
}

template <class T>
__device__ void fetch_runs(const RowsWork& work, int stage, KvRun* ring) {
  constexpr int kWords = sizeof(KvRun) / 8;
  static_assert(sizeof(KvRun) % 8 == 0 && T::kPieces * kWords <= kRowsThreads);
  const int entry = static_cast<int>(threadIdx.x) / kWords, word = static_cast<int>(threadIdx.x) % kWords;
  const int piece = stage * T::kPieces + entry;
  if (entry >= T::kPieces || piece >= work.run_count) return;
  copy_8_async(reinterpret_cast<std::byte*>(ring + stage % 3 * T::kPieces + entry) + word * 8,
               reinterpret_cast<const std::byte*>(work.runs + piece) + word * 8);
}

/// Begins to copy kCount slots, of which the first `live` exist. The others become zero: their weight is zero, and zero
/// times what lies in unused memory might not be.
template <class T, int kCount>
__device__ void fetch_slots(const __half* keys, const __half* values, int stride, int live, int head_dim, __half* to) {
  constexpr int kUnits = kCount * T::kRowUnits;
  int thread = static_cast<int>(threadIdx.x);
  asm volatile("" : "+r"(thread));
#pragma unroll
  for (int first = 0; first < kUnits; first += kRowsThreads) {
    const int i = first + thread;
    if (first + kRowsThreads > kUnits && i >= kUnits) break;
    const int row = i / T::kRowUnits, unit = i % T::kRowUnits;
    const int bytes = row < live && unit * 8 < head_dim ? 16 : 0;
    const int from = row * stride + unit * 8;  // outside the memory if there is nothing to read
    __half* at = to + row * T::kStride + unit * 8;
    copy_16_async(at, keys + from, bytes);
    copy_16_async(at + T::kSlots * T::kStride, values + from, bytes);
  }
}

/// Begins to copy a stage's keys and values.
template <class T>
__device__ void fetch_stage(const RowsWork& work, const TilePlace& place, const KvRun* ring, int stage, __half* to) {
  const int dim = work.head_dim;
  const int own = (stage * T::kPieces - work.run_count) * kTileSlots;  // of the stage's first piece
  const int64_t own_offset = int64_t{own} * work.row_stride;
  if (own >= 0) {
    fetch_slots<T, T::kSlots>(place.keys + own_offset, place.values + own_offset, work.row_stride, place.visible - own,
                              dim, to);
    return;
  }
#pragma unroll
  for (int entry = 0; entry < T::kPieces; ++entry) {
    const int first = own + entry * kTileSlots;
    const KvRun& run = runs_of<T>(ring, stage)[entry];
    __half* at = to + entry * kTileSlots * T::kStride;
    if (first < 0) {
      const std::byte* data = run.data + work.layer * run.layer_stride + place.kv_head * run.head_stride;
      fetch_slots<T, kTileSlots>(reinterpret_cast<const __half*>(data),
                                 reinterpret_cast<const __half*>(data + run.value_offset), dim, run.slots, dim, at);
    } else {
      const int64_t offset = int64_t{first} * work.row_stride;
      fetch_slots<T, kTileSlots>(place.keys + offset, place.values + offset, work.row_stride, place.visible - first,
                                 dim, at);
    }
  }
}

}  // namespace ocellus::cuda
