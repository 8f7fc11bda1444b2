// Integer products with AVX-512 VNNI: vpdpbusd adds four u8 x s8 products to each of sixteen int32 sums.
//
// Written with intrinsics because the instruction needs an unsigned and a signed operand. Weights are made unsigned by
// adding 128; the sums start at -128 times the sum of the inputs, so the result is exact.
#include "kernels/linear/matmul_codes.h"

#if defined(__x86_64__)

#include <immintrin.h>

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
class PanelProduct {
 public:
  PanelProduct(const WeightPanel& panel, const InputTile& input) : panel_(panel), input_(input) {
#pragma GCC unroll 8
    for (int t = 0; t < kTileInputs; ++t) total_[t] = _mm512_setzero_ps();
  }

  /// Groups of 32 weights.
  template <bool kMinimum>
  void add_groups(int64_t groups) {
    for (int64_t g = 0; g < groups; ++g) {
      __m512i products[kTileInputs];
      multiply_codes<8>(8 * g, input_.offsets + g * kTileInputs, products);
      const __m512 scales = _mm512_load_ps(panel_.scales + 16 * g), minimums = load_minimums<kMinimum>(g);
#pragma GCC unroll 8
      for (int t = 0; t < kTileInputs; ++t) {
        const __m512 scale = _mm512_mul_ps(scales, _mm512_set1_ps(input_.scales[g * kTileInputs + t]));
        total_[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(products[t]), scale, total_[t]);
        if constexpr (kMinimum)
          total_[t] = _mm512_fnmadd_ps(minimums, _mm512_set1_ps(input_.sums[g * kTileInputs + t]), total_[t]);
      }
    }
  }

  /// Groups of 16 weights, two to a group of inputs.
  template <bool kMinimum>
  void add_half_groups(int64_t groups) {
    for (int64_t g = 0; g < groups; ++g) {
      __m512 sums[kTileInputs];
#pragma GCC unroll 2
      for (int64_t half = 2 * g; half < 2 * g + 2; ++half) {
        const int32_t* offsets = input_.half_offsets + half * kTileInputs;
        __m512i products[kTileInputs];
        multiply_codes<4>(4 * half, offsets, products);
        const __m512 scales = _mm512_load_ps(panel_.scales + 16 * half), minimums = load_minimums<kMinimum>(half);
#pragma GCC unroll 8
        for (int t = 0; t < kTileInputs; ++t) {
          const __m512 sum = _mm512_cvtepi32_ps(products[t]);
          sums[t] = half == 2 * g ? _mm512_mul_ps(sum, scales) : _mm512_fmadd_ps(sum, scales, sums[t]);
          if constexpr (kMinimum)
            sums[t] =
                _mm512_fnmadd_ps(minimums, _mm512_set1_ps(kSumOfOffset * static_cast<float>(offsets[t])), sums[t]);
        }
      }
#pragma GCC unroll 8
      for (int t = 0; t < kTileInputs; ++t)
        total_[t] = _mm512_fmadd_ps(sums[t], _mm512_set1_ps(input_.scales[g * kTileInputs + t]), total_[t]);
    }
  }

  void store(float* sums) const {
#pragma GCC unroll 8
    for (int t = 0; t < kTileInputs; ++t) _mm512_storeu_ps(sums + 16 * t, total_[t]);
  }

 private:
  template <int kQuads>
  void multiply_codes(int64_t quad, const int32_t* offsets, __m512i* products) const {
    const uint8_t* weights = panel_.codes + 64 * quad;
    const int8_t* codes = input_.codes + 4 * kTileInputs * quad;
#pragma GCC unroll 8
    for (int t = 0; t < kTileInputs; ++t) products[t] = _mm512_set1_epi32(offsets[t]);
#pragma GCC unroll 8
    for (int i = 0; i < kQuads; ++i) {
      const __m512i w = _mm512_load_si512(weights + 64 * i);
#pragma GCC unroll 8
      for (int t = 0; t < kTileInputs; ++t) {
        const auto* x = reinterpret_cast<const int32_t*>(codes + 4 * (i * kTileInputs + t));
        products[t] = _mm512_dpbusd_epi32(products[t], w, _mm512_set1_epi32(*x));
      }
    }
  }

  template <bool kMinimum>
  __m512 load_minimums(int64_t g) const {
    return kMinimum ? _mm512_load_ps(panel_.minimums + 16 * g) : _mm512_setzero_ps();
  }

  const WeightPanel panel_;
  const InputTile input_;
  __m512 total_[kTileInputs];
};

// Not inline: with all variants in one function, sums go over memory.
template <bool kMinimum>
[[gnu::noinline]] void multiply_tile(const WeightPanel& panel, const InputTile& input, int64_t groups, float* sums) {
  PanelProduct product(panel, input);
  panel.group == kInputGroup ? product.add_groups<kMinimum>(groups) : product.add_half_groups<kMinimum>(groups);
  product.store(sums);
}

// The largest magnitude of each of eight rows, of which `most` holds that of every lane; as bits, whose order is that
// of magnitudes, with what is not a number above all.
__m256i reduce_rows(const __m512i* most) {
  __m256i half[8], fours[2];
#pragma GCC unroll 8
  for (int t = 0; t < 8; ++t)
    half[t] = _mm256_max_epi32(_mm512_castsi512_si256(most[t]), _mm512_extracti64x4_epi64(most[t], 1));
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const __m256i* rows = half + 4 * i;
    const __m256i first =
        _mm256_max_epi32(_mm256_unpacklo_epi32(rows[0], rows[1]), _mm256_unpackhi_epi32(rows[0], rows[1]));
    const __m256i second =
        _mm256_max_epi32(_mm256_unpacklo_epi32(rows[2], rows[3]), _mm256_unpackhi_epi32(rows[2], rows[3]));
    fours[i] = _mm256_max_epi32(_mm256_unpacklo_epi64(first, second), _mm256_unpackhi_epi64(first, second));
  }
  return _mm256_max_epi32(_mm256_permute2x128_si256(fours[0], fours[1], 0x20),
                          _mm256_permute2x128_si256(fours[0], fours[1], 0x31));
}

// Codes of eight rows, in the order of a tile: two vectors of eight fours each for every half of a group.
void interleave_codes(const __m512i* codes, __m512i* tile) {
  const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), high = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  __m512i fours[2];  // [quarter of 16 codes][four rows][4]
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i)
    fours[i] = _mm512_packs_epi16(_mm512_packs_epi32(codes[4 * i], codes[4 * i + 1]),
                                  _mm512_packs_epi32(codes[4 * i + 2], codes[4 * i + 3]));
  tile[0] = _mm512_permutex2var_epi64(fours[0], low, fours[1]);
  tile[1] = _mm512_permutex2var_epi64(fours[0], high, fours[1]);
}

// Sums of the codes of each row.
__m256i sum_codes(const __m512i* tile) {
  const __m512i ones = _mm512_set1_epi8(1);
  const __m512i sums = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(_mm512_setzero_si512(), ones, tile[0]), ones, tile[1]);
  return _mm256_add_epi32(_mm512_castsi512_si256(sums), _mm512_extracti64x4_epi64(sums, 1));
}

__m256i offset_of(__m256i sum) { return _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_slli_epi32(sum, 7)); }

void store_eight(void* to, __m256i values) { _mm256_store_si256(static_cast<__m256i*>(to), values); }

// As round_row, for group g of a tile; group[2][8 rows] are the halves of each row.
void round_group(const __m512 (*group)[8], const InputTile& tile, int64_t g) {
  static_assert(kTileInputs == 8);
  int8_t* to = tile.codes + 8 * kInputGroup * g;
  const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF), least = _mm512_set1_epi32(-127);
  __m512i most[8];
#pragma GCC unroll 8
  for (int t = 0; t < 8; ++t)
    most[t] = _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(group[0][t]), magnitude),
                               _mm512_and_si512(_mm512_castps_si512(group[1][t]), magnitude));
  const __m256 largest = _mm256_castsi256_ps(reduce_rows(most)), range = _mm256_set1_ps(127.0f);
  const __mmask8 nonzero = _mm256_cmp_ps_mask(largest, _mm256_set1_ps(kSmallestInput), _CMP_NLE_UQ);
  const __m256 scales = _mm256_maskz_div_ps(nonzero, largest, range);
  alignas(32) float inverse[8];
  _mm256_store_ps(inverse, _mm256_maskz_div_ps(nonzero, range, largest));
  __m256i sums[2];
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    __m512i codes[8], interleaved[2];
#pragma GCC unroll 8
    for (int t = 0; t < 8; ++t) {
      const __m512 scaled = _mm512_mul_ps(group[half][t], _mm512_set1_ps(inverse[t]));
      codes[t] = _mm512_max_epi32(_mm512_cvtps_epi32(scaled), least);  // no finite input
    }
    interleave_codes(codes, interleaved);
    sums[half] = sum_codes(interleaved);
    _mm512_store_si512(to + 128 * half, interleaved[0]);
    _mm512_store_si512(to + 128 * half + 64, interleaved[1]);
    store_eight(tile.half_offsets + 8 * (2 * g + half), offset_of(sums[half]));
  }
  const __m256i sum = _mm256_add_epi32(sums[0], sums[1]);
  store_eight(tile.offsets + 8 * g, offset_of(sum));
  _mm256_store_ps(tile.scales + 8 * g, scales);
  _mm256_store_ps(tile.sums + 8 * g, _mm256_mul_ps(scales, _mm256_cvtepi32_ps(sum)));
}

}  // namespace

void round_tile_native(const float* x, int64_t stride, int64_t count, const InputCodes& out, int64_t first) {
  const InputTile tile(out, first);
  for (int64_t g = 0; g < out.cols / kInputGroup; ++g) {
    __m512 group[2][8];
#pragma GCC unroll 8
    for (int t = 0; t < 8; ++t) {
      const __mmask16 exists = t < count ? 0xFFFF : 0;
      const float* from = x + t * stride + kInputGroup * g;
      group[0][t] = _mm512_maskz_loadu_ps(exists, from);
      group[1][t] = _mm512_maskz_loadu_ps(exists, from + 16);
    }
    round_group(group, tile, g);
  }
}

void multiply_panel_native(const WeightPanel& panel, const InputCodes& input, int64_t first, int, float* sums) {
  const int64_t groups = input.cols / kInputGroup;
  const InputTile tile(input, first);
  panel.minimums == nullptr ? multiply_tile<false>(panel, tile, groups, sums)
                            : multiply_tile<true>(panel, tile, groups, sums);
}

}  // namespace ocellus

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC diagnostic pop
#pragma GCC pop_options
#endif
#endif
