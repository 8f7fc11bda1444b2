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
