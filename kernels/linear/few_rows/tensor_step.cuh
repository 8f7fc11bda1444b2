// One step of a few-row product: sixteen weight rows, decoded from shared memory, times the input rows on the tensor
// cores. The weights are the first operand (16 x k), the inputs the second (k x 8).
//
// Lane 4g + q of a warp holds, as `sums`, rows g (0, 1) and g + 8 (2, 3) of the unit times input rows 2q and 2q + 1 of
// each tile of eight.
#pragma once

#include <cstdint>

#include "kernels/linear/few_rows/weight_steps.cuh"

namespace ocellus::cuda {

template <int kTiles>
using TileSums = float[kTiles][4];

/// Sums of products are whole numbers below 2^22: added to the bits of 1.5 * 2^23 they are floats already.
inline constexpr int kExactBits = 0x4B400000;
inline constexpr float kExactOrigin = 12582912.0f;

__device__ inline float exact_value(int bits) { return __int_as_float(bits) - kExactOrigin; }

struct CodeSums {
  int bits[4] = {kExactBits, kExactBits, kExactBits, kExactBits};
  __device__ float value(int i) const { return exact_value(bits[i]); }

  /// += products of 32 codes: rows g and g + 8, words of the lane in either half.
  __device__ void add(uint32_t low, uint32_t low_below, uint32_t high, uint32_t high_below, const uint2& x) {
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+r"(bits[0]), "+r"(bits[1]), "+r"(bits[2]), "+r"(bits[3])
        : "r"(low), "r"(low_below), "r"(high), "r"(high_below), "r"(x.x), "r"(x.y));
  }
  /// += products of 16 codes.
  __device__ void add(uint32_t word, uint32_t word_below, uint32_t x) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+r"(bits[0]), "+r"(bits[1]), "+r"(bits[2]), "+r"(bits[3])
                 : "r"(word), "r"(word_below), "r"(x));
  }
};

/// += products of 16 f16 values.
__device__ inline void add_halves(float (&sums)[4], uint32_t low, uint32_t low_below, uint32_t high,
                                  uint32_t high_below, uint32_t x_low, uint32_t x_high) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(low), "r"(low_below), "r"(high), "r"(high_below), "r"(x_low), "r"(x_high));
}

/// The place of a lane's two rows in a step, and the input group where the step begins.
struct StepPlace {
  const uint8_t* row = nullptr;
  const uint8_t* row_below = nullptr;  // eight rows further on
  int first_group = 0;
  int groups = 0;  // existing groups of the step
};

template <WeightFormat kFormat>
__device__ inline StepPlace find_step(const FewRowsWork& work, const Unit& unit, int step, const uint8_t* slot) {
  using Shape = Step<kFormat>;
  const int g = static_cast<int>(threadIdx.x) % kWarp / 4, groups = (work.input.cols + 31) / 32;
  const uint8_t* row = slot + g * work.pitch;
  const uint8_t* source = unit.weights + g * work.row_bytes + int64_t{step} * Shape::kBytes;
  StepPlace place;
  place.row = row + beyond_sixteen<kFormat>(source);
  place.row_below = row + 8 * work.pitch + beyond_sixteen<kFormat>(source + 8 * work.row_bytes);
  place.first_group = step * Shape::kGroups;
  place.groups = min(Shape::kGroups, groups - place.first_group);
  return place;
}

/// sums += scale * values, for input rows 2q and 2q + 1; x as in RoundedRows::scales.
__device__ inline void add_scaled(float (&sums)[4], float scale, float below, const CodeSums& values, const float4& x) {
  sums[0] = fmaf(scale * x.x, values.value(0), sums[0]);
  sums[1] = fmaf(scale * x.z, values.value(1), sums[1]);
  sums[2] = fmaf(below * x.x, values.value(2), sums[2]);
  sums[3] = fmaf(below * x.z, values.value(3), sums[3]);
}

/// sums += scale * value - minimum * sum of the inputs. kHalfMinimums: `minimums` are the whole numbers of the minimums
/// times the inputs.
template <WeightFormat kFormat>
__device__ inline void add_group(float (&sums)[4], const GroupScale& scale, const GroupScale& below,
                                 const CodeSums& values, const CodeSums& minimums, const float4& x) {
  add_scaled(sums, scale.scale, below.scale, values, x);
  if constexpr (kHalfMinimums<kFormat>) {
    add_scaled(sums, -scale.second, -below.second, minimums, x);
  } else if constexpr (Blocks<kFormat>::kMinimum) {
    sums[0] = fmaf(-scale.second, x.y, sums[0]);
    sums[1] = fmaf(-scale.second, x.w, sums[1]);
    sums[2] = fmaf(-below.second, x.y, sums[2]);
    sums[3] = fmaf(-below.second, x.w, sums[3]);
  }
}

/// The same if the halves of a group have scales of their own.
__device__ inline void add_halves_scaled(float (&sums)[4], const GroupScale& scale, const GroupScale& below,
                                         const CodeSums& front, const CodeSums& back, const float4& x) {
  sums[0] = fmaf(x.x, scale.scale * front.value(0) + scale.second * back.value(0), sums[0]);
  sums[1] = fmaf(x.z, scale.scale * front.value(1) + scale.second * back.value(1), sums[1]);
  sums[2] = fmaf(x.x, below.scale * front.value(2) + below.second * back.value(2), sums[2]);
  sums[3] = fmaf(x.z, below.scale * front.value(3) + below.second * back.value(3), sums[3]);
}

/// A plain step.
template <WeightFormat kFormat, int kTiles>
__device__ inline void multiply_plain(const StepPlace& place, const RoundedRows& x, TileSums<kTiles>& sums) {
  using Shape = Step<kFormat>;
  constexpr int kEightBytes = Shape::kBytes * 8 / Shape::kWeights;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, g = lane / 4, q = lane % 4;
  constexpr int kColumns = 8 * kTiles;
  const int exchange = (g & 1) << 6;  // fetch_step: halves of odd rows
  const uint8_t* values = x.values + 64 * (place.first_group * kColumns + g) + 16 * q;
#pragma unroll
  for (int i = 0; i < Shape::kGroups; ++i) {
    if (i >= place.groups) break;
    const int at = (4 * i + q) * kEightBytes ^ exchange;
    const uint4 a = load_eight_halves<kFormat>(place.row + at), b = load_eight_halves<kFormat>(place.row_below + at);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const uint4 in = *reinterpret_cast<const uint4*>(values + 64 * (i * kColumns + 8 * n));
      add_halves(sums[n], a.x, b.x, a.y, b.y, in.x, in.y);
      add_halves(sums[n], a.z, b.z, a.w, b.w, in.z, in.w);
    }
  }
}

/// A step of codes. Lane q of four multiplies words q and q + 4 of every group.
template <WeightFormat kFormat, int kTiles>
__device__ inline void multiply_codes(const StepPlace& place, const RoundedRows& x, TileSums<kTiles>& sums) {
  using Format = Blocks<kFormat>;
  constexpr int kGroupsPerBlock = Format::kElements / 32;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, g = lane / 4, q = lane % 4;
  constexpr int kColumns = 8 * kTiles;
  const uint8_t* values = x.values + 32 * (place.first_group * kColumns + g) + 8 * q;
  const float2* scales = x.scales + place.first_group * kColumns + 2 * q;
#pragma unroll
  for (int i = 0; i < Step<kFormat>::kGroups; ++i) {
    if (i >= place.groups) break;
    const int offset = i / kGroupsPerBlock * Format::kBytes, group = i % kGroupsPerBlock;
    Words<1> low, high, low_below, high_below;
    Format::template codes<1>(place.row + offset, group, q, low, high);
    Format::template codes<1>(place.row_below + offset, group, q, low_below, high_below);
    const GroupScale scale = Format::scale(place.row + offset, group);
    const GroupScale below = Format::scale(place.row_below + offset, group);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const uint2 in = *reinterpret_cast<const uint2*>(values + 32 * (i * kColumns + 8 * n));
      const float4 in_scale = *reinterpret_cast<const float4*>(scales + i * kColumns + 8 * n);
      if constexpr (Format::kHalves) {
        CodeSums front, back;
        front.add(low[0], low_below[0], in.x);
        back.add(high[0], high_below[0], in.y);
        add_halves_scaled(sums[n], scale, below, front, back, in_scale);
      } else {
        CodeSums products, minimums;
        products.add(low[0], low_below[0], high[0], high_below[0], in);
        if constexpr (kHalfMinimums<kFormat>) {
          const uint2 numbers = Format::half_minimums(place.row + offset, group);
          const uint2 numbers_below = Format::half_minimums(place.row_below + offset, group);
          minimums.add(numbers.x, numbers_below.x, numbers.y, numbers_below.y, in);
        }
        add_group<kFormat>(sums[n], scale, below, products, minimums, in_scale);
      }
    }
  }
}

}  // namespace ocellus::cuda
