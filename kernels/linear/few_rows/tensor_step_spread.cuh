// A step of codes for one or two input rows, for which the tensor cores have unused columns: each of the four lanes
// that share a weight row multiplies a group of its own. Columns 2q and 2q + 1 of the input operand hold the two input
// rows at the places of lane q and zeros elsewhere, so that they sum up lane q's group only. Scales are thus decoded
// once, by the lane that needs them, and not by all four.
#pragma once

#include "kernels/linear/few_rows/tensor_step.cuh"

namespace ocellus::cuda {

/// Words 2i and 2i + 1 of eight: words i and i + 4 of a group.
__device__ inline uint2 pair_of(const uint4 (&words)[2], int i) {
  const uint4& four = words[i / 2];
  return i % 2 == 0 ? uint2{four.x, four.y} : uint2{four.z, four.w};
}

/// The sums of lane q are those of its own groups; together the four lanes have the step's.
template <WeightFormat kFormat>
__device__ inline void multiply_spread_codes(const StepPlace& place, const RoundedRows& x, int rows, float (&sums)[4]) {
  using Format = Blocks<kFormat>;
  constexpr int kGroupsPerBlock = Format::kElements / 32, kGroupsPerLane = Step<kFormat>::kGroups / 4;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, g = lane / 4, q = lane % 4;
#pragma unroll
  for (int i = 0; i < kGroupsPerLane; ++i) {
    const bool exists = q * kGroupsPerLane + i < place.groups;
    const int at = exists ? q * kGroupsPerLane + i : 0;  // index in the step's groups
    const int offset = at / kGroupsPerBlock * Format::kBytes, group = at % kGroupsPerBlock;
    uint4 in[2] = {};
    float4 in_scale{};
    const int column = (place.first_group + at) * 2;
    if (exists && g / 2 == q && g % 2 < rows) {
      in[0] = *reinterpret_cast<const uint4*>(x.values + 32 * (column + g % 2));
      in[1] = *reinterpret_cast<const uint4*>(x.values + 32 * (column + g % 2) + 16);
    }
    if (exists) in_scale = *reinterpret_cast<const float4*>(x.scales + column);
    Words<4> low, high, low_below, high_below;
    Format::template codes<4>(place.row + offset, group, 0, low, high);
    Format::template codes<4>(place.row_below + offset, group, 0, low_below, high_below);
    const GroupScale scale = Format::scale(place.row + offset, group);
    const GroupScale below = Format::scale(place.row_below + offset, group);
    if constexpr (Format::kHalves) {
      CodeSums front, back;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        front.add(low[j], low_below[j], pair_of(in, j).x);
        back.add(high[j], high_below[j], pair_of(in, j).y);
      }
      add_halves_scaled(sums, scale, below, front, back, in_scale);
    } else {
      CodeSums products, minimums;
#pragma unroll
      for (int j = 0; j < 4; ++j) products.add(low[j], low_below[j], high[j], high_below[j], pair_of(in, j));
      if constexpr (kHalfMinimums<kFormat>) {
        const uint2 numbers = Format::half_minimums(place.row + offset, group);
        const uint2 numbers_below = Format::half_minimums(place.row_below + offset, group);
#pragma unroll
        for (int j = 0; j < 4; ++j)
          minimums.add(numbers.x, numbers_below.x, numbers.y, numbers_below.y, pair_of(in, j));
      }
      add_group<kFormat>(sums, scale, below, products, minimums, in_scale);
    }
  }
}

}  // namespace ocellus::cuda
