// Tiled attention by warpgroups: sizes of a tile, its shared memory, and the order of the tiles.
#pragma once

#include <algorithm>

#include "kernels/attention/attend_barriers.cuh"
#include "kernels/attention/attend_rows_place.cuh"
#include "kernels/attention/attend_warpgroup.cuh"

namespace ocellus::cuda {

/// As RowsTile: kGroups warpgroups of 64 query rows each, and one more that copies. A matrix in shared memory is made
/// of 16-byte units, in one of two layouts that products can read:
/// - swizzled: panels of 64 columns, a row's eight units side by side, unit u of row r at place u ^ r % 8
/// - plain: unit u of all rows, then unit u + 1 of all rows
template <int kDim_, int kValueDim_>
struct WarpgroupTile {
  static constexpr int kDim = kDim_;
  static constexpr int kValueDim = kValueDim_;
  static constexpr bool kHasRuns = true;
  static constexpr bool kListed = true;  // or may be
  static constexpr bool kKeepsQueries = false;
  static constexpr int kGroups = kDim < 128 ? 3 : 2;  // as many as the registers allow
  static constexpr int kWorkers = kGroups * kGroupThreads;
  static constexpr int kThreads = kWorkers + kGroupThreads;
  static constexpr int kWorkerRegisters = kGroups == 3 ? 160 : 232;
  static constexpr int kCopierRegisters = kGroups == 3 ? 32 : 40;
  static constexpr int kRowTiles = 1;
  static constexpr int kWarpRows = kFragment;
  static constexpr int kRows = kGroups * kGroupRows;
  static constexpr int kSlots = kDim <= 128 ? 128 : 64;
  static constexpr int kPieces = kSlots / kTileSlots;
  static constexpr int kRowUnits = kDim / 8;
  static constexpr bool kSwizzled = kDim % 64 == 0;
  static constexpr int kMatrixHalves = kSlots * kDim;  // keys of a stage, or its values
  static constexpr int kStages = kDim < 128 ? 4 : kDim == 128 ? 3 : 2;

  /// Shared memory of a block.
  struct Shared {
    __half keys[kStages][kMatrixHalves];
    __half values[kStages][kMatrixHalves];
    __half queries[kRows * kDim];  // and results
    PieceSlots pieces[kStages][kPieces];
    int complete[kStages];  // all slots of the stage are live, and visible to all rows unless they are own ones
    Barrier keys_full[kStages], values_full[kStages], keys_empty[kStages], values_empty[kStages];
    Barrier queries_full, queries_empty;
  };
  static constexpr int kSharedBytes = static_cast<int>(sizeof(Shared));
  static_assert(kSharedBytes <= most_shared_bytes(90));
  static_assert(!kSwizzled || (kMatrixHalves % 512 == 0 && kRows * kDim % 512 == 0));

  /// A lane's place in the small matrices that a warp copies at a time. Eight neighbouring lanes reach different banks.
  static constexpr int kLaneUnits = kSwizzled ? 8 : 4;
  static constexpr int kLaneRows = kWarp / kLaneUnits;
  __device__ static int lane_row() {
    return threadIdx.x % kWarp / kLaneUnits * kSwizzled + threadIdx.x % 8 * !kSwizzled;
  }
  __device__ static int lane_unit() { return kSwizzled ? threadIdx.x % 8 : threadIdx.x % kWarp / 8; }

  /// Halves from the start of a matrix of kCount rows to a unit.
  template <int kCount>
  __device__ static int unit_offset(int row, int unit) {
    return kSwizzled ? unit / 8 * (kCount * 64) + row * 64 + (unit ^ row) % 8 * 8 : (unit * kCount + row) * 8;
  }
};

/// A stage's place in the ring, and the parity of its round.
template <class T>
struct RingPlace {
  int at = 0;
  uint32_t phase = 0;
  __device__ void step() {
    if (++at == T::kStages) at = 0, phase ^= 1;
  }
};

/// The tiles of a block, one after the other: forward, then backward through all blocks, so that each gets long ones
/// and short ones where later tiles are shorter.
__device__ inline int tile_of_round(int round) {
  const int blocks = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
  return round * blocks + (round % 2 == 0 ? block : blocks - 1 - block);
}

}  // namespace ocellus::cuda
