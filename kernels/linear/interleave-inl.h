// Rows of 32-bit units as columns: operands of panels. Included once per CPU target.
#if defined(OCELLUS_KERNELS_INTERLEAVE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OCELLUS_KERNELS_INTERLEAVE_INL_H_
#undef OCELLUS_KERNELS_INTERLEAVE_INL_H_
#else
#define OCELLUS_KERNELS_INTERLEAVE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>

#include "kernels/linear/matmul_codes.h"
#include "kernels/linear/transpose_avx512.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Transposes four rows of `units` 32-bit units (a multiple of 4; floats, or four codes each) into four columns of a
// matrix [units][kColumns]; `flip` is combined with each unit by exclusive or.
template <int kColumns>
HWY_ATTR void interleave_rows(const uint8_t* const* rows, int64_t units, uint32_t* out, uint32_t flip = 0) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t i = 0; i < 4 * units; ++i) {
    std::memcpy(&out[kColumns * (i / 4) + i % 4], rows[i % 4] + 4 * (i / 4), 4);
    out[kColumns * (i / 4) + i % 4] ^= flip;
  }
#else
  const hn::Full128<uint32_t> d;
  const hn::Full128<uint64_t> d64;
  const hn::Full128<uint8_t> d8;
  const auto mask = hn::Set(d, flip);
  for (int64_t u = 0; u < units; u += 4, out += 4 * kColumns) {
    const auto row0 = hn::Xor(hn::BitCast(d, hn::LoadU(d8, rows[0] + 4 * u)), mask);
    const auto row1 = hn::Xor(hn::BitCast(d, hn::LoadU(d8, rows[1] + 4 * u)), mask);
    const auto row2 = hn::Xor(hn::BitCast(d, hn::LoadU(d8, rows[2] + 4 * u)), mask);
    const auto row3 = hn::Xor(hn::BitCast(d, hn::LoadU(d8, rows[3] + 4 * u)), mask);
    const auto low01 = hn::BitCast(d64, hn::InterleaveLower(d, row0, row1));
    const auto high01 = hn::BitCast(d64, hn::InterleaveUpper(d, row0, row1));
    const auto low23 = hn::BitCast(d64, hn::InterleaveLower(d, row2, row3));
    const auto high23 = hn::BitCast(d64, hn::InterleaveUpper(d, row2, row3));
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, low01, low23)), d, out);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, low01, low23)), d, out + kColumns);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, high01, high23)), d, out + 2 * kColumns);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, high01, high23)), d, out + 3 * kColumns);
  }
#endif
}

// Transposes sixteen rows of `units` 32-bit units (a multiple of 4), `stride` units apart, into a panel [units][16].
// With wide vectors, whole sixteens of units are read and written.
HWY_INLINE void interleave_sixteen(const uint32_t* rows, int64_t stride, int64_t units, uint32_t* panel,
                                   uint32_t flip = 0) {
#if OCELLUS_VNNI
  for (int64_t u = 0; u < units; u += 16) {
    __m512i columns[16];
#pragma GCC unroll 16
    for (int r = 0; r < 16; ++r)
      columns[r] =
          _mm512_xor_si512(_mm512_loadu_si512(rows + r * stride + u), _mm512_set1_epi32(static_cast<int>(flip)));
    transpose_sixteen(columns);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i)
      if (u + i < units) _mm512_store_si512(panel + 16 * (u + i), columns[i]);
  }
#else
  for (int r = 0; r < 16; r += 4) {
    const uint8_t* each[4];
    for (int i = 0; i < 4; ++i) each[i] = reinterpret_cast<const uint8_t*>(rows + (r + i) * stride);
    interleave_rows<16>(each, units, panel + r, flip);
  }
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();
#endif
