// Division of the weights of FewRowsPlan::kTiles between blocks and warps, and their copies into shared memory.
//
// Each block takes an equal share of the weight rows, in sequence, up to two tiles of sixteen at a time: a unit. Along
// the columns a unit is divided into slices of 256, of which each warp takes every `column_warps`-th; the warps of a
// block that share a unit's columns are a group, and groups take the units in turn. A slice is one step of a warp, or
// several. Each warp fetches its steps into a ring of shared memory well before it needs them; the first ones even
// before the kernel that computes the input has ended.
#pragma once

#include "kernels/linear/few_rows/tensor_step.cuh"

namespace ocellus::cuda {

/// Maximum bytes between the rows of a step.
template <WeightFormat kFormat>
inline constexpr int kMostPitch = Step<kFormat>::kAligned ? Step<kFormat>::kBytes
                                                          : 16 * ((Step<kFormat>::kBytes + 30) / 16 | 1);
/// Steps of a warp's ring: sixteen rings and the sums of the warps fit the 163 KB of older devices.
template <WeightFormat kFormat>
inline constexpr int kTileRing = 8256 / (kUnitRows * kMostPitch<kFormat>);

inline constexpr int kSliceWeights = 256, kSliceGroups = kSliceWeights / 32;

/// Up to 32 rows of one matrix, in two tiles; gated: up to sixteen rows of the first matrix, and the same of the
/// second.
struct TileUnit {
  const uint8_t* weights[2] = {};
  int counts[2] = {};
  int matrix = 0;
  int first = 0;  // row of the matrix
};

/// Returns unit `index` of this block; without rows if there is none.
__device__ inline TileUnit find_tile_unit(const FewRowsWork& work, int index) {
  const int most = work.tiles.unit_rows;
  const Unit rows = find_rows(work, index, most);
  TileUnit unit;
  unit.matrix = rows.matrix;
  unit.first = rows.first;
  const int64_t at = unit.first * work.row_bytes;
  unit.counts[0] = max(0, min(kUnitRows, rows.count));
  unit.counts[1] = work.gated ? unit.counts[0] : max(0, min(most - kUnitRows, rows.count - kUnitRows));
  unit.weights[0] = work.matrices[unit.matrix].weights + at;
  unit.weights[1] = work.gated ? work.matrices[1].weights + at : unit.weights[0] + kUnitRows * work.row_bytes;
  return unit;
}

/// The steps of a warp in their order: the fetching half.
template <WeightFormat kFormat>
struct TileFetcher {
  static constexpr int kSteps = kSliceWeights / Step<kFormat>::kWeights;  // steps of a slice

  __device__ TileFetcher(const FewRowsWork& work, int group, int column_warp)
      : unit(find_tile_unit(work, group)), index(group), first_step(column_warp * kSteps), step(first_step) {}

  __device__ void fetch(const FewRowsWork& work, int steps, uint32_t slot) {
    if (unit.counts[0] > 0) {
      Unit tile;
      tile.weights = second ? unit.weights[1] : unit.weights[0];
      tile.count = second ? unit.counts[1] : unit.counts[0];
      fetch_step<kFormat>(work, tile, step, slot);
      advance(work, steps);
    }
    close_copies();
  }

 private:
  __device__ void advance(const FewRowsWork& work, int steps) {
    ++step;
    if (step % kSteps != 0 && step < steps) return;
    const int slice = (step - 1) / kSteps;
    step = slice * kSteps;
    if (!second && unit.counts[1] > 0) {
      second = true;
      return;
    }
    second = false;
    step += work.tiles.column_warps * kSteps;
    if (step < steps) return;
    step = first_step;
    index += work.tiles.groups;
    unit = find_tile_unit(work, index);
  }

  TileUnit unit;
  int index, first_step, step;
  bool second = false;
};

}  // namespace ocellus::cuda
