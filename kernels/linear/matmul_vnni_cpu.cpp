// Integer products with AVX-512 VNNI: vpdpbusd adds four u8 x s8 products to each of sixteen int32 sums.
//
// Written with intrinsics because the instruction needs an unsigned and a signed operand. Weights are made unsigned by
// adding 128; the sums start at -128 times the sum of the inputs, so the result is exact.
#include "kernels/linear/matmul_codes.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>

// Only the code below is compiled for AVX-512: inline functions of the headers above may be shared with other files.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma")
#pragma GCC diagnostic push
// GCC 12 takes the "undefined" operands inside the intrinsics for our uninitialised variables (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace ocellus {
namespace {

// Sums of four vectors.
inline __m128 reduce_four(const __m512* sums) {
  __m256 half[4];
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r)
    half[r] = _mm256_add_ps(_mm512_castps512_ps256(sums[r]), _mm512_extractf32x8_ps(sums[r], 1));
  const __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(half[0], half[1]), _mm256_hadd_ps(half[2], half[3]));
  return _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
}

// 32 codes at `low` and 32 at `high`.
inline __m512i load_two(const int8_t* low, const int8_t* high) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(low))),
                            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(high)), 1);
}

// The scales of sixteen groups of 16: each group of 32 inputs has one for two of them.
inline __m512 load_half_scales(const float* scales) {
  const __m512i twice = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
  return _mm512_permutexvar_ps(twice, _mm512_castps256_ps512(_mm256_loadu_ps(scales)));
}

// Scale times the sum of kGroup codes, for groups g..g + 15 of an input row.
template <int kGroup>
inline __m512 load_input_sums(const InputCodes& input, int64_t t, int64_t g) {
  if constexpr (kGroup == kInputGroup) return _mm512_load_ps(input.sums(t) + g);
  const __m512 scales = _mm512_mul_ps(load_half_scales(input.scales(t) + g / 2), _mm512_set1_ps(kSumOfOffset));
  return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_load_si512(input.half_offsets(t) + g)), scales);
}

// A step is 64 codes: two groups of 32, which may be apart, or four adjacent groups of 16.
template <int kGroup>
void multiply_rows(const WeightRows& rows, const InputCodes& input, int64_t t, float* sums) {
  constexpr int kGroupsOfStep = 64 / kGroup, kStepsOfScales = 16 / kGroupsOfStep;
  const int8_t* codes = input.codes(t);
  const float* scales = input.scales(t);
  const int64_t steps = input.padded_cols / 64, stride = kGroup == 32 ? rows.stride_bytes : 32;
  const int64_t last_offset = (input.cols / 32 - 1) * stride;
  const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i first_scale = _mm512_srli_epi32(lane, kGroup == 32 ? 3 : 2);  // the scale of each lane of a step
  const __m512i sign = _mm512_set1_epi8(-128);
  __m512 total[4], scale[4];
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r) total[r] = _mm512_setzero_ps();
  int64_t low_offset = 0;
  for (int64_t begin = 0; begin < steps; begin += kStepsOfScales) {
    // Sixteen scales at a time; each step then picks its own.
    const int64_t group = begin * kGroupsOfStep;
    const __m512 input_scales = kGroup == 32 ? _mm512_loadu_ps(scales + group) : load_half_scales(scales + group / 2);
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) scale[r] = _mm512_mul_ps(_mm512_loadu_ps(rows.scales[r] + group), input_scales);
    __m512i picked = first_scale;
    const int64_t end = std::min(steps, begin + kStepsOfScales);
    for (int64_t step = begin; step < end; ++step) {
      // An odd last group is read twice; the inputs of the second half are zero.
      const int64_t next = low_offset + stride, high_offset = next < last_offset ? next : last_offset;
      const __m512i x = _mm512_load_si512(codes + 64 * step);
      const __m512i zero = _mm512_setzero_si512();
      const __m512i offset = _mm512_sub_epi32(zero, _mm512_dpbusd_epi32(zero, sign, x));
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) {
        const __m512i w = _mm512_xor_si512(load_two(rows.codes[r] + low_offset, rows.codes[r] + high_offset), sign);
        const __m512 products = _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(offset, w, x));
        total[r] = _mm512_fmadd_ps(products, _mm512_permutexvar_ps(picked, scale[r]), total[r]);
      }
      picked = _mm512_add_epi32(picked, _mm512_set1_epi32(kGroupsOfStep));
      low_offset = next + stride;
    }
  }
  if (rows.minimums[0] != nullptr)
    for (int64_t g = 0; g < input.cols / kGroup; g += 16) {
      const __m512 x = load_input_sums<kGroup>(input, t, g);
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) total[r] = _mm512_fnmadd_ps(_mm512_loadu_ps(rows.minimums[r] + g), x, total[r]);
    }
  _mm_storeu_ps(sums, reduce_four(total));
}

// Both the sums in int32 of the current group and the float sums of all input rows stay in registers; a weight vector
// is loaded once for all of them, and four codes of an input row are broadcast from memory.
template <int kGroup, int kInputs>
void multiply_panel(const WeightPanel& panel, const InputCodes& input, int64_t first, float* sums) {
  constexpr int kQuads = kGroup / 4;
  const int64_t stride = input.record_bytes();
  const int8_t* codes = input.codes(first);
  const auto* offsets = reinterpret_cast<const char*>(kGroup == 32 ? input.offsets(first) : input.half_offsets(first));
  const auto* scales = reinterpret_cast<const char*>(input.scales(first));
  const auto* input_sums = reinterpret_cast<const char*>(input.sums(first));
  __m512 total[kInputs];
#pragma GCC unroll 8
  for (int t = 0; t < kInputs; ++t) total[t] = _mm512_setzero_ps();
  for (int64_t g = 0; g < input.cols / kGroup; ++g) {
    __m512i products[kInputs];
#pragma GCC unroll 8
    for (int t = 0; t < kInputs; ++t)
      products[t] = _mm512_set1_epi32(*reinterpret_cast<const int32_t*>(offsets + t * stride + 4 * g));
#pragma GCC unroll 8
    for (int quad = 0; quad < kQuads; ++quad) {
      const __m512i w = _mm512_load_si512(panel.codes + 64 * (g * kQuads + quad));
#pragma GCC unroll 8
      for (int t = 0; t < kInputs; ++t) {
        const auto* x = reinterpret_cast<const int32_t*>(codes + t * stride + g * kGroup + 4 * quad);
        products[t] = _mm512_dpbusd_epi32(products[t], w, _mm512_set1_epi32(*x));
      }
    }
    const __m512 weight_scales = _mm512_load_ps(panel.scales + 16 * g);
    const int64_t input_group = g * kGroup / kInputGroup;
#pragma GCC unroll 8
    for (int t = 0; t < kInputs; ++t) {
      const __m512 scale = _mm512_mul_ps(
          weight_scales, _mm512_set1_ps(*reinterpret_cast<const float*>(scales + t * stride + 4 * input_group)));
      total[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(products[t]), scale, total[t]);
    }
    if (panel.minimums == nullptr) continue;
    const __m512 minimums = _mm512_load_ps(panel.minimums + 16 * g);
#pragma GCC unroll 8
    for (int t = 0; t < kInputs; ++t) {
      float sum = *reinterpret_cast<const float*>(input_sums + t * stride + 4 * input_group);
      if constexpr (kGroup < kInputGroup)
        sum = *reinterpret_cast<const float*>(scales + t * stride + 4 * input_group) *
              static_cast<float>(*reinterpret_cast<const int32_t*>(offsets + t * stride + 4 * g)) * kSumOfOffset;
      total[t] = _mm512_fnmadd_ps(minimums, _mm512_set1_ps(sum), total[t]);
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < kInputs; ++t) _mm512_storeu_ps(sums + 16 * t, total[t]);
}

template <int kGroup>
void multiply_panel_group(const WeightPanel& panel, const InputCodes& input, int64_t first, int count, float* sums) {
  while (count > 0) {
    const int size = count >= 8 ? 8 : count >= 4 ? 4 : count >= 2 ? 2 : 1;
    if (size == 8) multiply_panel<kGroup, 8>(panel, input, first, sums);
    if (size == 4) multiply_panel<kGroup, 4>(panel, input, first, sums);
    if (size == 2) multiply_panel<kGroup, 2>(panel, input, first, sums);
    if (size == 1) multiply_panel<kGroup, 1>(panel, input, first, sums);
    count -= size;
    first += size;
    sums += size * kPanelRows;
  }
}

}  // namespace

void multiply_rows_native(const WeightRows& rows, const InputCodes& input, int64_t t, float* sums) {
  rows.group == 32 ? multiply_rows<32>(rows, input, t, sums) : multiply_rows<16>(rows, input, t, sums);
}

void multiply_panel_native(const WeightPanel& panel, const InputCodes& input, int64_t first, int count, float* sums) {
  panel.group == 32 ? multiply_panel_group<32>(panel, input, first, count, sums)
                    : multiply_panel_group<16>(panel, input, first, count, sums);
}

}  // namespace ocellus

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC diagnostic pop
#pragma GCC pop_options
#endif
#endif
