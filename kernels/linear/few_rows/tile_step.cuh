// One step of FewRowsPlan::kTiles: sixteen weight rows, taken from shared memory as f16, times the input rows on the
// tensor cores. The weights are the first operand (16 x k).
//
// Lane 4g + q of a warp holds, as `sums`, rows g (0, 1) and g + 8 (2, 3) of the tile times input rows 2q and 2q + 1.
//
// Codes become f16 without rounding: those of formats with a minimum as subnormal numbers, 2^-24 times the code, so
// that a byte needs no more than a byte of zeros above it. Scales are applied to the sums of a group, in f32.
#pragma once

#include "kernels/linear/few_rows/tile_input.cuh"

namespace ocellus::cuda {

template <WeightFormat kFormat>
constexpr bool has_minimum() {
  if constexpr (is_plain(kFormat))
    return false;
  else
    return Blocks<kFormat>::kMinimum;
}
template <WeightFormat kFormat>
inline constexpr bool kHasMinimum = has_minimum<kFormat>();

/// Sums are these times too small.
template <WeightFormat kFormat>
inline constexpr float kSumScale = kHasMinimum<kFormat> ? 16777216.0f : 1.0f;

/// Four codes as f16: signed ones, or unsigned ones as subnormal numbers.
template <bool kSigned>
__device__ inline uint2 halves_of_codes(uint32_t codes) {
  if constexpr (!kSigned) return {__byte_perm(codes, 0, 0x4140), __byte_perm(codes, 0, 0x4342)};
  const uint32_t above = codes ^ each_byte(128);  // 128 more; as 1024 + that: the low byte of 0x6400
  const auto less = [](uint32_t pair) {
    const __half2 value = __hsub2(*reinterpret_cast<const __half2*>(&pair), __half2half2(__ushort_as_half(0x6480)));
    return *reinterpret_cast<const uint32_t*>(&value);
  };
  return {less(__byte_perm(above, 0x64646464u, 0x4140)), less(__byte_perm(above, 0x64646464u, 0x4342))};
}

/// The minimums of a group's halves as a pair of f16, for sums that are kSumScale too small: `pair` times `unit` times
/// the sum of the half is to be added.
template <WeightFormat kFormat>
struct Minimums {  // Q4_1, Q5_1: of one block each
  static __device__ uint32_t pair(const uint8_t* block, int) {
    return 0x00010001u * *reinterpret_cast<const uint16_t*>(block + 2);
  }
  static __device__ float unit(const uint8_t*) { return 1 / kSumScale<kFormat>; }
};
template <>
struct Minimums<WeightFormat::kQ4_K> {  // whole numbers as subnormal ones
  static __device__ uint32_t pair(const uint8_t* block, int group) {
    const uint4 head = *reinterpret_cast<const uint4*>(block);
    const uint32_t upper = ((head.w >> 4) & each_byte(15)) | ((head.z >> 2) & each_byte(0x30));
    const uint32_t four = group < 4 ? head.z & each_byte(63) : upper;
    return __byte_perm(four, 0, 0x4040u + 0x0101u * static_cast<uint32_t>(group & 3));
  }
  static __device__ float unit(const uint8_t* block) { return -half_at(block + 2); }
};
template <>
struct Minimums<WeightFormat::kQ5_K> : Minimums<WeightFormat::kQ4_K> {};
template <>
struct Minimums<WeightFormat::kQ2_K> {
  static __device__ uint32_t pair(const uint8_t* block, int group) {
    const uint32_t both = *reinterpret_cast<const uint16_t*>(block + 2 * group);
    return __byte_perm((both >> 4) & each_byte(15), 0, 0x4140);
  }
  static __device__ float unit(const uint8_t* block) { return -half_at(block + 82); }
};

/// Returns products of 16 f16 values; with `before`, added to it.
__device__ inline float4 multiply_halves(const uint2& above, const uint2& below, uint32_t x_low, uint32_t x_high,
                                         const float4& before = {}) {
  float4 out;
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %11, %12, %13};"
      : "=f"(out.x), "=f"(out.y), "=f"(out.z), "=f"(out.w)
      : "r"(above.x), "r"(below.x), "r"(above.y), "r"(below.y), "r"(x_low), "r"(x_high), "f"(before.x), "f"(before.y),
        "f"(before.z), "f"(before.w));
  return out;
}
/// += products of 8 f16 values.
__device__ inline void add_eight_halves(float4& sums, uint32_t above, uint32_t below, uint32_t x) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(sums.x), "+f"(sums.y), "+f"(sums.z), "+f"(sums.w)
      : "r"(above), "r"(below), "r"(x));
}
__device__ inline void add_scaled(float (&sums)[4], float scale, float below, const float4& values) {
  sums[0] = fmaf(scale, values.x, sums[0]);
  sums[1] = fmaf(scale, values.y, sums[1]);
  sums[2] = fmaf(below, values.z, sums[2]);
  sums[3] = fmaf(below, values.w, sums[3]);
}

/// The groups of a step, from `first_group` of the slice on.
template <WeightFormat kFormat, class Input>
__device__ inline void multiply_tile_codes(const StepPlace& place, const Input& x, int first_group, float (&sums)[4]) {
  using Format = Blocks<kFormat>;
  constexpr int kGroupsPerBlock = Format::kElements / 32;
  const int q = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int i = 0; i < Step<kFormat>::kGroups; ++i) {
    const int offset = i / kGroupsPerBlock * Format::kBytes, group = i % kGroupsPerBlock;
    Words<1> low, high, low_below, high_below;
    Format::template codes<1>(place.row + offset, group, q, low, high);
    Format::template codes<1>(place.row_below + offset, group, q, low_below, high_below);
    constexpr bool kSigned = !Format::kMinimum;
    const uint2 front = halves_of_codes<kSigned>(low[0]), front_below = halves_of_codes<kSigned>(low_below[0]);
    const uint2 back = halves_of_codes<kSigned>(high[0]), back_below = halves_of_codes<kSigned>(high_below[0]);
    GroupScale scale = Format::scale(place.row + offset, group);
    GroupScale below = Format::scale(place.row_below + offset, group);
    // Beyond the row the input is zero and codes are whole numbers, but scales may be anything.
    if (kGroupsPerBlock < Step<kFormat>::kGroups && i >= place.groups) scale = below = {0.0f, 0.0f};
    const uint32_t(&in)[4] = x.values[first_group + i];
    const float4 first = multiply_halves(front, front_below, in[0], in[1]);
    if constexpr (Format::kHalves) {
      add_scaled(sums, scale.scale, below.scale, first);
      add_scaled(sums, scale.second, below.second, multiply_halves(back, back_below, in[2], in[3]));
    } else {
      add_scaled(sums, scale.scale, below.scale, multiply_halves(back, back_below, in[2], in[3], first));
    }
  }
}

/// The minimums of a step, from the `first_four`-th four groups of the slice on. Lane q of four has group q of every
/// four.
template <WeightFormat kFormat, class Input>
__device__ inline void add_minimums(const StepPlace& place, const Input& x, int first_four, float (&sums)[4]) {
  constexpr int kGroupsPerBlock = Blocks<kFormat>::kElements / 32, kBytes = Blocks<kFormat>::kBytes;
  const int q = static_cast<int>(threadIdx.x) % 4;
  float4 products = {};
#pragma unroll
  for (int four = 0; four < Step<kFormat>::kGroups / 4; ++four) {
    const int group = 4 * four + q;
    uint32_t pair = 0, pair_below = 0;
    if (kGroupsPerBlock >= Step<kFormat>::kGroups || group < place.groups) {
      const int offset = group / kGroupsPerBlock * kBytes;
      pair = Minimums<kFormat>::pair(place.row + offset, group % kGroupsPerBlock);
      pair_below = Minimums<kFormat>::pair(place.row_below + offset, group % kGroupsPerBlock);
    }
#pragma unroll
    for (int part = 0; part < 2; ++part) add_eight_halves(products, pair, pair_below, x.means[first_four + four][part]);
  }
  const float unit = kHalfSumScale * Minimums<kFormat>::unit(place.row);
  const float below = kHalfSumScale * Minimums<kFormat>::unit(place.row_below);
  add_scaled(sums, unit, below, products);
}

template <WeightFormat kFormat, class Input>
__device__ inline void multiply_tile_halves(const StepPlace& place, const Input& x, int first_group, float (&sums)[4]) {
  using Shape = Step<kFormat>;
  constexpr int kEightBytes = Shape::kBytes * 8 / Shape::kWeights;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, g = lane / 4, q = lane % 4;
  const int exchange = (g & 1) << 6;  // fetch_step: halves of odd rows
#pragma unroll
  for (int i = 0; i < Shape::kGroups; ++i) {
    const int at = (4 * i + q) * kEightBytes ^ exchange;
    const uint4 a = load_eight_halves<kFormat>(place.row + at), b = load_eight_halves<kFormat>(place.row_below + at);
    const uint32_t(&in)[4] = x.values[first_group + i];
    add_halves(sums, a.x, b.x, a.y, b.y, in[0], in[1]);
    add_halves(sums, a.z, b.z, a.w, b.w, in[2], in[3]);
  }
}

/// A step, from `first_group` of the slice on.
template <WeightFormat kFormat, class Input>
__device__ inline void multiply_tile_step(const StepPlace& place, const Input& x, int first_group, float (&sums)[4]) {
  if constexpr (Step<kFormat>::kPlain) {
    multiply_tile_halves<kFormat>(place, x, first_group, sums);
  } else {
    multiply_tile_codes<kFormat>(place, x, first_group, sums);
    if constexpr (kHasMinimum<kFormat>) add_minimums<kFormat>(place, x, first_group / 4, sums);
  }
}

}  // namespace ocellus::cuda
