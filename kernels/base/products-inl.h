// Products of f32 matrices that fit into the L1 cache, for the attention ops; compiled once per Highway target.
#if defined(OCELLUS_KERNELS_PRODUCTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef OCELLUS_KERNELS_PRODUCTS_INL_H
#undef OCELLUS_KERNELS_PRODUCTS_INL_H
#else
#define OCELLUS_KERNELS_PRODUCTS_INL_H
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/base/pairs-inl.h"
#include "kernels/base/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {

inline constexpr int kTileRows = 4;
// Accumulators must stay in registers: 4 x 4 of 32, or 4 x 2 of 16.
#if HWY_ARCH_ARM || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
inline constexpr int kTileVectors = 4;
#else
inline constexpr int kTileVectors = 2;
#endif

/// A left factor: element (i, k) at data[i * row_step + k * col_step].
struct LeftFactor {
  const float* data;
  int64_t row_step;
  int64_t col_step;
};

/// c[rows, kVectors * kLanes] = rescale * c + left * b; without kRescale, c = left * b. Rows in steps of kTileRows.
/// With kPairs, both factors hold pairs of bf16, and `depth` counts pairs.
template <bool kRescale, bool kPairs, int kVectors>
HWY_INLINE void multiply_columns(LeftFactor left, const float* b, int64_t b_stride, int64_t rows, int64_t depth,
                                 const float* rescale, float* c, int64_t c_stride) {
  const FloatTag d;
  for (int64_t row = 0; row < rows; row += kTileRows) {
    FloatVec sums[kTileRows][kVectors];
    for (int r = 0; r < kTileRows; ++r) {
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = hn::Zero(d);
        if (kRescale) {
          const float* old = c + (row + r) * c_stride + v * kLanes;
          sums[r][v] = hn::Mul(hn::LoadU(d, old), hn::Set(d, rescale[row + r]));
        }
      }
    }
    const float* a = left.data + row * left.row_step;
    for (int64_t k = 0; k < depth; ++k) {
      FloatVec right[kVectors];
      for (int v = 0; v < kVectors; ++v) right[v] = hn::LoadU(d, b + k * b_stride + v * kLanes);
      for (int r = 0; r < kTileRows; ++r) {
        const FloatVec factor = hn::Set(d, a[r * left.row_step + k * left.col_step]);
        for (int v = 0; v < kVectors; ++v)
          sums[r][v] = kPairs ? add_pairs(factor, right[v], sums[r][v]) : hn::MulAdd(factor, right[v], sums[r][v]);
      }
    }
    for (int r = 0; r < kTileRows; ++r) {
      for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[r][v], d, c + (row + r) * c_stride + v * kLanes);
    }
  }
}

template <bool kRescale, bool kPairs = false>
void multiply(LeftFactor left, const float* b, int64_t b_stride, int64_t rows, int64_t depth, int64_t cols,
              const float* rescale, float* c, int64_t c_stride) {
  int64_t col = 0;
  for (; col + kTileVectors * kLanes <= cols; col += kTileVectors * kLanes) {
    multiply_columns<kRescale, kPairs, kTileVectors>(left, b + col, b_stride, rows, depth, rescale, c + col, c_stride);
  }
  for (; col + 2 * kLanes <= cols; col += 2 * kLanes) {
    multiply_columns<kRescale, kPairs, 2>(left, b + col, b_stride, rows, depth, rescale, c + col, c_stride);
  }
  for (; col < cols; col += kLanes) {
    multiply_columns<kRescale, kPairs, 1>(left, b + col, b_stride, rows, depth, rescale, c + col, c_stride);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#endif  // OCELLUS_KERNELS_PRODUCTS_INL_H
