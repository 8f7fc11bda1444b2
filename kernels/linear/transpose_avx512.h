// Transposition in registers, for files that are compiled for AVX-512 in their own ways.
#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

namespace ocellus {

/// Transposes sixteen rows of sixteen 32-bit units.
[[gnu::always_inline, gnu::target("avx512f")]] inline void transpose_sixteen(__m512i* rows) {
  __m512i pairs[16], fours[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    pairs[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    fours[i] = _mm512_unpacklo_epi64(pairs[i], pairs[i + 2]);
    fours[i + 1] = _mm512_unpackhi_epi64(pairs[i], pairs[i + 2]);
    fours[i + 2] = _mm512_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
    fours[i + 3] = _mm512_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
  }
  // Quarter q of fours[4 g + i] is now column 4 q + i of rows 4 g..4 g + 3.
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512i even0 = _mm512_shuffle_i32x4(fours[i], fours[4 + i], 0x88);
    const __m512i even1 = _mm512_shuffle_i32x4(fours[8 + i], fours[12 + i], 0x88);
    const __m512i odd0 = _mm512_shuffle_i32x4(fours[i], fours[4 + i], 0xDD);
    const __m512i odd1 = _mm512_shuffle_i32x4(fours[8 + i], fours[12 + i], 0xDD);
    rows[i] = _mm512_shuffle_i32x4(even0, even1, 0x88);
    rows[4 + i] = _mm512_shuffle_i32x4(odd0, odd1, 0x88);
    rows[8 + i] = _mm512_shuffle_i32x4(even0, even1, 0xDD);
    rows[12 + i] = _mm512_shuffle_i32x4(odd0, odd1, 0xDD);
  }
}

}  // namespace ocellus

#endif
