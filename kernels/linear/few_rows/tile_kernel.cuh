// The kernel of FewRowsPlan::kTiles: up to eight input rows on the tensor cores.
#pragma once

#include "kernels/linear/activation.cuh"
#include "kernels/linear/few_rows/launch.cuh"
#include "kernels/linear/few_rows/tile_step.cuh"

namespace ocellus::cuda {

/// Waits for the warps of a group.
__device__ inline void meet_group(int group, int warps) {
  asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "r"(warps * kWarp) : "memory");
}

/// Sums of a warp over its columns: [tile of a unit][weight row][input row]. The odd pitch spreads rows over the banks.
inline constexpr int kPartialPitch = kMaxTileRows + 1;
inline constexpr int kPartials = 2 * kUnitRows * kPartialPitch;

template <WeightFormat kFormat>
__device__ inline void store_tile_sums(const float (&sums)[4], float* partials) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, g = lane / 4, q = lane % 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) partials[kPartialPitch * (g + i / 2 * 8) + 2 * q + i % 2] = kSumScale<kFormat> * sums[i];
}

/// An output, and what is read to compute it.
struct TileOutput {
  __device__ TileOutput(const FewRowsWork& work, const TileUnit& unit, int index) {
    row = index % kUnitRows;
    const int rest = index / kUnitRows, rows = work.tiles.input.rows;
    tile = rest >= rows ? 1 : 0;
    t = rest - tile * rows;
    exists = rest < rows * (work.gated ? 1 : 2) && row < (tile == 0 ? unit.counts[0] : unit.counts[1]);
    if (!exists) return;
    const int at = unit.first + kUnitRows * tile + row;
    const FewRowsMatrix& matrix = work.matrices[unit.matrix];
    place = t * matrix.output_stride + at;
    if (matrix.bias != nullptr) bias = matrix.bias[at];
    if (work.gated && work.matrices[1].bias != nullptr) second_bias = work.matrices[1].bias[at];
    if (!work.accumulate) return;
    before = matrix.half_output ? __half2float(static_cast<const __half*>(matrix.output)[place])
                                : static_cast<const float*>(matrix.output)[place];
  }
  int row, tile, t;
  bool exists;
  int64_t place = 0;
  float bias = 0, second_bias = 0, before = 0;
};

/// Adds the warps' sums in their order.
__device__ inline float add_warps(const float* partials, int warps, int tile, int row, int t) {
  const float* from = partials + kPartialPitch * (kUnitRows * tile + row) + t;
  float value = 0;
#pragma unroll 4
  for (int warp = 0; warp < warps; ++warp) value += from[warp * kPartials];
  return value;
}

__device__ inline void finish_tile_output(const FewRowsWork& work, const TileUnit& unit, const TileOutput& out,
                                          const float* partials) {
  if (!out.exists) return;
  const int warps = work.tiles.column_warps;
  float value = add_warps(partials, warps, out.tile, out.row, out.t) + out.bias;
  value = activated(value, work.activation);
  if (work.gated) value *= add_warps(partials, warps, 1, out.row, out.t) + out.second_bias;
  value += out.before;
  const FewRowsMatrix& matrix = work.matrices[unit.matrix];
  if (matrix.half_output)
    static_cast<__half*>(matrix.output)[out.place] = round_half(value);
  else
    static_cast<float*>(matrix.output)[out.place] = value;
}

template <WeightFormat kFormat>
__global__ void __launch_bounds__(kMostTileWarps* kWarp, 1) multiply_tiles(const __grid_constant__ FewRowsWork work) {
  using Fetcher = TileFetcher<kFormat>;
  constexpr int kGroups = Step<kFormat>::kGroups, kSteps = Fetcher::kSteps, kRing = kTileRing<kFormat>;
  extern __shared__ uint4 shared_memory[];
  let_next_start();
  auto* shared = reinterpret_cast<uint8_t*>(shared_memory);
  const int warp = static_cast<int>(threadIdx.x) / kWarp, column_warps = work.tiles.column_warps;
  const int group = warp / column_warps, column_warp = warp % column_warps, slot_bytes = kUnitRows * work.pitch;
  uint8_t* ring = shared + warp * kRing * slot_bytes;
  const auto ring_address = static_cast<uint32_t>(__cvta_generic_to_shared(ring));
  const int steps = divide_up(divide_up(work.input.cols, 32), kGroups);

  Fetcher fetcher(work, group, column_warp);
#pragma unroll 1
  for (int i = 0; i < kRing; ++i) fetcher.fetch(work, steps, ring_address + static_cast<uint32_t>(i * slot_bytes));
  auto* partials = reinterpret_cast<float*>(shared + work.tiles.partials_at) + group * column_warps * kPartials;
  const bool one_slice = column_warps * kSteps >= steps;
  wait_for_inputs();

  TileInput<Step<kFormat>::kPlain, kHasMinimum<kFormat>> x;
  if (one_slice) x.load(work.tiles.input, column_warp);
  int slot = 0;
#pragma unroll 1
  for (int index = group;; index += work.tiles.groups) {
    const TileUnit unit = find_tile_unit(work, index);
    if (unit.counts[0] == 0) break;
    float sums[2][4] = {};
#pragma unroll 1
    for (int begin = column_warp * kSteps; begin < steps; begin += column_warps * kSteps) {
      if (!one_slice) x.load(work.tiles.input, begin / kSteps);
#pragma unroll 1
      for (int second = 0; second < 2; ++second) {
        Unit tile;
        tile.weights = second != 0 ? unit.weights[1] : unit.weights[0];
        tile.count = second != 0 ? unit.counts[1] : unit.counts[0];
#pragma unroll
        for (int i = 0; i < kSteps; ++i) {
          if (tile.count == 0 || begin + i >= steps) break;
          wait_for_copies<kRing - 1>();
          __syncwarp();
          const StepPlace place = find_step<kFormat>(work, tile, begin + i, ring + slot * slot_bytes);
          multiply_tile_step<kFormat>(place, x, i * kGroups, sums[0]);
          __syncwarp();
          fetcher.fetch(work, steps, ring_address + static_cast<uint32_t>(slot * slot_bytes));
          slot = slot + 1 == kRing ? 0 : slot + 1;
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {  // the tiles take turns, and registers have no index
          const float first = sums[0][i];
          sums[0][i] = sums[1][i];
          sums[1][i] = first;
        }
      }
    }
    const int threads = column_warps * kWarp, thread = column_warp * kWarp + static_cast<int>(threadIdx.x) % kWarp;
    const TileOutput out(work, unit, thread);
    meet_group(group, column_warps);  // the sums of the unit before have been read
    float* own = partials + column_warp * kPartials;
    store_tile_sums<kFormat>(sums[0], own);
    store_tile_sums<kFormat>(sums[1], own + kPartials / 2);
    meet_group(group, column_warps);
    finish_tile_output(work, unit, out, partials);
    const int outputs = kUnitRows * work.tiles.input.rows * (work.gated ? 1 : 2);
#pragma unroll 1
    for (int i = thread + threads; i < outputs; i += threads)
      finish_tile_output(work, unit, TileOutput(work, unit, i), partials);
  }
}

}  // namespace ocellus::cuda
