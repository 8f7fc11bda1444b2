// Products of bf16 pairs with AVX512_BF16, and operands for the tiles of AMX. vdpbf16ps adds two products to each of
// sixteen f32 sums.
#include "kernels/linear/matmul_pairs.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>

#include "kernels/linear/transpose_avx512.h"

// Only the code below is compiled for AVX-512: inline functions of the headers above may be shared with other files.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")
#pragma GCC diagnostic push
// GCC 12 takes the "undefined" operands inside the intrinsics for our uninitialised variables (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace ocellus {
namespace {

constexpr int64_t kPiece = 32;  // values of a vector of pairs

// The first `count` bits are set.
__mmask32 first_bits(int64_t count) {
  return count >= kPiece ? ~__mmask32{0} : (__mmask32{1} << std::max<int64_t>(count, 0)) - 1;
}

__m512i round_to_pairs(__m512 first, __m512 second) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first));
}

// Pairs of one value of each.
__m512i zip_pairs(__m512 first, __m512 second) {
  alignas(64) static constexpr uint16_t kOrder[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return _mm512_permutexvar_epi16(_mm512_load_si512(kOrder), round_to_pairs(first, second));
}

// `count` floats as pairs, then zeros.
__m512i load_floats(const float* x, int64_t count) {
  const __mmask32 mask = first_bits(count);
  const __m512 first = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), x);
  return round_to_pairs(first, _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), x + 16));
}

template <WeightFormat kFormat>
__m512i load_weights(const uint8_t* row, int64_t count) {
  const __m512i halves = _mm512_maskz_loadu_epi16(first_bits(count), row);
  if constexpr (kFormat == WeightFormat::kBF16) return halves;
  return round_to_pairs(_mm512_cvtph_ps(_mm512_castsi512_si256(halves)),
                        _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1)));
}

template <WeightFormat kFormat>
void fill_panel(const uint8_t* const* rows, int64_t cols, uint32_t* panel) {
  const int64_t ahead = kPanelRows * 2 * cols;
  for (int64_t begin = 0; begin < 2 * padded_pairs(cols); begin += kPiece) {
    __m512i columns[kPanelRows];
#pragma GCC unroll 16
    for (int r = 0; r < kPanelRows; ++r) {
      columns[r] = load_weights<kFormat>(rows[r] + 2 * begin, cols - begin);
      fetch_weights(rows[r] + 2 * begin + ahead, 64);
    }
    transpose_sixteen(columns);
#pragma GCC unroll 16
    for (int i = 0; i < kPanelRows; ++i) _mm512_store_si512(panel + kPanelRows * (begin / 2 + i), columns[i]);
  }
}

// Sixteen rows as tiles of sixteen pairs each: rows side by side would lie in the same few sets of the cache.
void round_tiles(const float* x, int64_t stride, int64_t count, int64_t cols, uint32_t* out) {
  for (int64_t i = 0; i < padded_pairs(cols); i += kTileInputRows)
    for (int64_t t = 0; t < kTileInputRows; ++t)
      _mm512_store_si512(out + kTileInputRows * (i + t),
                         load_floats(x + t * stride + 2 * i, t < count ? cols - 2 * i : 0));
}

// Eight rows as [pairs][8].
void interleave_pairs(const float* x, int64_t stride, int64_t count, int64_t cols, uint32_t* out) {
  for (int64_t begin = 0; begin < 2 * padded_pairs(cols); begin += 2 * kPiece) {
    __m512i rows[16];  // a piece of each row, then the next piece of each
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      const int64_t t = i % 8, first = begin + i / 8 * kPiece;
      rows[i] = load_floats(x + t * stride + first, t < count ? cols - first : 0);
    }
    transpose_sixteen(rows);
#pragma GCC unroll 16
    for (int64_t i = 0; i < 16; ++i) {
      uint32_t* to = out + 8 * (begin / 2 + i);
      _mm256_store_si256(reinterpret_cast<__m256i*>(to), _mm512_castsi512_si256(rows[i]));
      _mm256_store_si256(reinterpret_cast<__m256i*>(to + 16 * 8), _mm512_extracti64x4_epi64(rows[i], 1));
    }
  }
}

}  // namespace

void round_pairs(const float* x, int64_t stride, int64_t count, int64_t cols, uint32_t* out) {
  if (has_tile_products()) return round_tiles(x, stride, count, cols, out);
  for (int64_t t = 0; t < count; t += 8)
    interleave_pairs(x + t * stride, stride, count - t, cols, out + t * padded_pairs(cols));
}

void fill_pair_panel(WeightFormat format, const uint8_t* const* rows, int64_t cols, uint32_t* panel) {
  format == WeightFormat::kBF16 ? fill_panel<WeightFormat::kBF16>(rows, cols, panel)
                                : fill_panel<WeightFormat::kF16>(rows, cols, panel);
}

void widen_panel(const WeightPanel& codes, int64_t cols, uint32_t* panel) {
  const int quads = codes.group / 4;
  for (int64_t g = 0; g < cols / codes.group; ++g) {
    const __m512 scales = _mm512_load_ps(codes.scales + kPanelRows * g);
    const __m512 minimums =
        codes.minimums == nullptr ? _mm512_setzero_ps() : _mm512_load_ps(codes.minimums + kPanelRows * g);
    const auto weight = [&](__m512i code) {  // in the order of decode_row
      return _mm512_sub_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_srai_epi32(code, 24)), scales), minimums);
    };
    for (int64_t i = g * quads; i < (g + 1) * quads; ++i) {
      const __m512i quad = _mm512_load_si512(codes.codes + 4 * kPanelRows * i);
      const __m512 first = weight(_mm512_slli_epi32(quad, 24)), second = weight(_mm512_slli_epi32(quad, 16));
      const __m512 third = weight(_mm512_slli_epi32(quad, 8)), fourth = weight(quad);
      _mm512_store_si512(panel + 2 * kPanelRows * i, zip_pairs(first, second));
      _mm512_store_si512(panel + 2 * kPanelRows * i + kPanelRows, zip_pairs(third, fourth));
    }
  }
  for (int64_t i = kPanelRows * cols / 2; i < kPanelRows * padded_pairs(cols); i += kPanelRows)
    _mm512_store_si512(panel + i, _mm512_setzero_si512());
}

void multiply_pairs(const uint32_t* panel, const uint32_t* rows, int64_t count, int64_t pairs, float* sums) {
  if (has_tile_products()) return multiply_tiles(panel, rows, round_up(count, kTileInputRows), pairs, sums);
  // Two sums an input row, so that no product waits for another.
  __m512 total[2][8];
#pragma GCC unroll 2
  for (auto& half : total)
#pragma GCC unroll 8
    for (__m512& sum : half) sum = _mm512_setzero_ps();
  for (int64_t i = 0; i < pairs; i += 2) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const auto w = reinterpret_cast<__m512bh>(_mm512_load_si512(panel + kPanelRows * (i + half)));
#pragma GCC unroll 8
      for (int t = 0; t < 8; ++t) {
        const auto x = _mm512_set1_epi32(static_cast<int32_t>(rows[8 * (i + half) + t]));
        total[half][t] = _mm512_dpbf16_ps(total[half][t], w, reinterpret_cast<__m512bh>(x));
      }
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < 8; ++t) _mm512_store_ps(sums + kPanelRows * t, _mm512_add_ps(total[0][t], total[1][t]));
}

}  // namespace ocellus

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC diagnostic pop
#pragma GCC pop_options
#endif
#endif
