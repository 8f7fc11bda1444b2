// The kernel of the few-row product, and its launch. Included by the files that instantiate it for their formats.
#pragma once

#include "kernels/linear/activation.cuh"
#include "kernels/linear/few_rows/launch.cuh"
#include "kernels/linear/few_rows/round_input.cuh"
#include "kernels/linear/few_rows/tensor_step.cuh"
#include "kernels/linear/few_rows/tile_kernel.cuh"
#include "kernels/linear/few_rows/warp_kernel.cuh"

namespace ocellus::cuda {

/// Stores a warp's sums of a unit: [input row][16 weight rows].
template <int kTiles>
__device__ inline void store_partials(const TileSums<kTiles>& sums, int rows, float* partials) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, g = lane / 4, q = lane % 4;
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int t = 8 * n + 2 * q + i % 2;
      if (t < rows) partials[kUnitRows * t + g + i / 2 * 8] = sums[n][i];
    }
}

/// Writes an output, or adds it.
__device__ inline void finish_output(const FewRowsWork& work, const Unit& unit, int t, int row, float value) {
  const FewRowsMatrix& matrix = work.matrices[unit.matrix];
  const int64_t at = t * matrix.output_stride + unit.first + row;
  if (matrix.half_output) {
    __half* out = static_cast<__half*>(matrix.output) + at;
    *out = round_half(work.accumulate ? value + __half2float(*out) : value);
  } else {
    float* out = static_cast<float*>(matrix.output) + at;
    *out = work.accumulate ? value + *out : value;
  }
}

/// Adds the warps' sums in their order and writes the unit's outputs. The same thread handles an output of the first
/// and of the second gated matrix; the first warp rotates, so that all take turns.
__device__ inline void finish_unit(const FewRowsWork& work, const Unit& unit, int index, const float* partials,
                                   float* gates) {
  const int warps = static_cast<int>(blockDim.x) / kWarp, outputs = kUnitRows * work.input.rows;
  int i = static_cast<int>(threadIdx.x) - (work.gated ? index >> 1 : index) % warps * kWarp;
  if (i < 0) i += static_cast<int>(blockDim.x);
  for (; i < outputs; i += static_cast<int>(blockDim.x)) {
    const int row = i % kUnitRows;
    if (row >= unit.count) continue;
    float value = 0;
#pragma unroll 4
    for (int warp = 0; warp < warps; ++warp) value += partials[warp * outputs + i];
    const float* bias = work.matrices[unit.matrix].bias;
    if (bias != nullptr) value += bias[unit.first + row];
    if (!work.gated) {
      finish_output(work, unit, i / kUnitRows, row, activated(value, work.activation));
    } else if (unit.matrix == 0) {
      gates[i] = value;
    } else {
      Unit out = unit;
      out.matrix = 0;
      finish_output(work, out, i / kUnitRows, row, activated(gates[i], work.activation) * value);
    }
  }
}

/// Copies the rounded input into shared memory. Ends with a barrier.
__device__ inline void stage_rounded_rows(const FewRowsWork& work, uint8_t* to) {
  const int step = 16 * static_cast<int>(blockDim.x);
#pragma unroll 8
  for (int i = 16 * static_cast<int>(threadIdx.x); i < work.shared.staged_bytes; i += step)
    *reinterpret_cast<uint4*>(to + i) = *reinterpret_cast<const uint4*>(work.rounded.values + i);
  __syncthreads();
}

/// The fetching half of a warp's steps.
template <WeightFormat kFormat>
struct Fetcher {
  __device__ void fetch(const FewRowsWork& work, int steps, uint32_t slot) {
    while (unit.count > 0 && step >= steps) {
      step -= steps;
      unit = find_unit(work, ++index);
    }
    if (unit.count > 0) fetch_step<kFormat>(work, unit, step, slot);
    step += static_cast<int>(blockDim.x) / kWarp;
    close_copies();
  }
  Unit unit;
  int index = 0;
  int step = 0;
};

template <WeightFormat kFormat, FewRowsPlan kPlan>
__global__ void __launch_bounds__(kMostRoundedWarps* kWarp, 2) multiply_rows(const __grid_constant__ FewRowsWork work) {
  using Shape = Step<kFormat>;
  constexpr int kTiles = kTilesOf<kPlan>;
  extern __shared__ uint4 shared_memory[];
  let_next_start();
  auto* shared = reinterpret_cast<uint8_t*>(shared_memory);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  const int slot_bytes = kUnitRows * work.pitch;
  uint8_t* ring = shared + warp * kRingSteps * slot_bytes;
  const auto ring_address = static_cast<uint32_t>(__cvta_generic_to_shared(ring));
  const int steps = divide_up(groups_of(work.input.cols), Shape::kGroups);

  Fetcher<kFormat> fetcher;
  fetcher.unit = find_unit(work, 0);
  fetcher.step = warp;
  Unit unit = fetcher.unit;
  for (int i = 0; i < kRingSteps; ++i) fetcher.fetch(work, steps, ring_address + static_cast<uint32_t>(i * slot_bytes));

  RoundedRows x = work.rounded;
  wait_for_inputs();
  if (work.shared.staged_bytes > 0) {
    stage_rounded_rows(work, shared + work.shared.values_at);
    x.values = shared + work.shared.values_at;
    x.scales = reinterpret_cast<float2*>(shared + work.shared.scales_at);
  }
  auto* partials = reinterpret_cast<float*>(shared + work.shared.partials_at);
  auto* gates = reinterpret_cast<float*>(shared + work.shared.gates_at);
  const int partial_count = kUnitRows * work.input.rows;

  int slot = 0, step = warp;
  for (int index = 0; unit.count > 0; unit = find_unit(work, ++index)) {
    TileSums<kTiles> sums = {};
    for (; step < steps; step += warps) {
      wait_for_copies<kRingSteps - 1>();
      __syncwarp();
      const StepPlace place = find_step<kFormat>(work, unit, step, ring + slot * slot_bytes);
      if constexpr (Shape::kPlain)
        multiply_plain<kFormat, kTiles>(place, x, sums);
      else
        multiply_codes<kFormat, kTiles>(place, x, sums);
      __syncwarp();
      fetcher.fetch(work, steps, ring_address + static_cast<uint32_t>(slot * slot_bytes));
      slot = slot + 1 == kRingSteps ? 0 : slot + 1;
    }
    step -= steps;
    float* buffer = partials + (work.shared.two_buffers ? index & 1 : 0) * warps * partial_count;
    store_partials<kTiles>(sums, work.input.rows, buffer + warp * partial_count);
    __syncthreads();
    finish_unit(work, unit, index, buffer, gates);
    if (!work.shared.two_buffers) __syncthreads();
  }
}

template <WeightFormat kFormat>
void launch_few_rows(FewRowsPlan plan, const LaunchShape& shape, const FewRowsWork& work, Queue& queue) {
  constexpr const char* kName = "matmul";
  switch (plan) {
    case FewRowsPlan::kPerWarp:
      if (work.input.rows == 1) return launch<multiply_per_warp<kFormat, 1>>(queue, kName, shape, work);
      return launch<multiply_per_warp<kFormat, 2>>(queue, kName, shape, work);
    case FewRowsPlan::kTiles: return launch<multiply_tiles<kFormat>>(queue, kName, shape, work);
    case FewRowsPlan::kTwo: return launch<multiply_rows<kFormat, FewRowsPlan::kTwo>>(queue, kName, shape, work);
    case FewRowsPlan::kFour: return launch<multiply_rows<kFormat, FewRowsPlan::kFour>>(queue, kName, shape, work);
    case FewRowsPlan::kEight: return launch<multiply_rows<kFormat, FewRowsPlan::kEight>>(queue, kName, shape, work);
  }
}

}  // namespace ocellus::cuda
