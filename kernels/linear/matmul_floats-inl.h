// Float products of the matrix product: weights F32, F16 and BF16. Included once per CPU target.
#if defined(OCELLUS_KERNELS_MATMUL_FLOATS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OCELLUS_KERNELS_MATMUL_FLOATS_INL_H_
#undef OCELLUS_KERNELS_MATMUL_FLOATS_INL_H_
#else
#define OCELLUS_KERNELS_MATMUL_FLOATS_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "kernels/linear/interleave-inl.h"
#include "kernels/linear/matmul_codes.h"
#include "quant/weight_format.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Readers of a vector of weights; one type per plain format.
struct ReadF32 {
  static constexpr WeightFormat kFormat = WeightFormat::kF32;
  static constexpr int64_t kBytes = 4;
  template <class D>
  static HWY_INLINE hn::Vec<D> read(D d, const uint8_t* row, int64_t i) {
    return hn::LoadU(d, reinterpret_cast<const float*>(row) + i);
  }
};
struct ReadF16 {
  static constexpr WeightFormat kFormat = WeightFormat::kF16;
  static constexpr int64_t kBytes = 2;
  template <class D>
  static HWY_INLINE hn::Vec<D> read(D d, const uint8_t* row, int64_t i) {
    return hn::PromoteTo(d,
                         hn::LoadU(hn::Rebind<hwy::float16_t, D>(), reinterpret_cast<const hwy::float16_t*>(row) + i));
  }
};
struct ReadBF16 {
  static constexpr WeightFormat kFormat = WeightFormat::kBF16;
  static constexpr int64_t kBytes = 2;
  template <class D>
  static HWY_INLINE hn::Vec<D> read(D d, const uint8_t* row, int64_t i) {
    return hn::PromoteTo(
        d, hn::LoadU(hn::Rebind<hwy::bfloat16_t, D>(), reinterpret_cast<const hwy::bfloat16_t*>(row) + i));
  }
};

// Multiplies four weight rows by one input row; sums [4]. One row after the other: the CPU's prefetchers favour one
// long stream.
template <class Reader>
HWY_ATTR void multiply_float_rows(const uint8_t* const* rows, const float* x, int64_t cols, float* sums) {
  const hn::CappedTag<float, 16> d;
  constexpr int64_t kLanes = hn::MaxLanes(d), kStep = 4 * kLanes;
  for (int r = 0; r < 4; ++r) {
    hn::Vec<decltype(d)> total[4];
    for (auto& value : total) value = hn::Zero(d);
    int64_t i = 0;
    for (; i + kStep <= cols; i += kStep) {
      fetch_weights(rows[r] + i * Reader::kBytes + kWeightsAhead, kStep * Reader::kBytes);
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v)
        total[v] = hn::MulAdd(Reader::read(d, rows[r], i + v * kLanes), hn::LoadU(d, x + i + v * kLanes), total[v]);
    }
    const auto sum = hn::Add(hn::Add(total[0], total[1]), hn::Add(total[2], total[3]));
    sums[r] = hn::GetLane(hn::SumOfLanes(d, sum));
    if (i == cols) continue;
    float tail[kStep];
    decode_row(Reader::kFormat, rows[r] + Reader::kBytes * i, cols - i, tail);
    for (int64_t k = i; k < cols; ++k) sums[r] += tail[k - i] * x[k];
  }
}

// Fills a panel [cols, rounded up to 4][16] of float with sixteen weight rows of a plain format.
template <class Reader>
HWY_ATTR void fill_float_panel(const uint8_t* const* rows, int64_t cols, float* panel) {
  const hn::CappedTag<float, 16> d;
  constexpr int64_t kPiece = 64;
  const int64_t ahead = 4 * row_bytes(Reader::kFormat, cols);  // four rows at a time: fetch the next four
  HWY_ALIGN float decoded[4][kPiece] = {};
  const uint8_t* decoded_rows[4];
  for (int i = 0; i < 4; ++i) decoded_rows[i] = reinterpret_cast<const uint8_t*>(decoded[i]);
  for (int r = 0; r < kPanelRows; r += 4)
    for (int64_t begin = 0; begin < cols; begin += kPiece) {
      const int64_t count = std::min(kPiece, cols - begin);
      for (int i = 0; i < 4; ++i) {
        if (count < kPiece) {
          decode_row(Reader::kFormat, rows[r + i] + row_bytes(Reader::kFormat, begin), count, decoded[i]);
          continue;
        }
        for (int64_t k = 0; k < kPiece; k += static_cast<int64_t>(hn::Lanes(d))) {
          hwy::Prefetch(rows[r + i] + ahead + Reader::kBytes * (begin + k));
          hn::StoreU(Reader::read(d, rows[r + i], begin + k), d, decoded[i] + k);
        }
      }
      auto* out = reinterpret_cast<uint32_t*>(panel + kPanelRows * begin + r);
      interleave_rows<kPanelRows>(decoded_rows, round_up(count, 4), out);
    }
}

// Multiplies a panel by kInputs input rows; sums [kInputs][16].
template <int kInputs>
HWY_ATTR void multiply_float_panel(const float* panel, const float* x, int64_t stride, int64_t cols, float* sums) {
  const hn::CappedTag<float, 16> d;
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(d));
  constexpr int kVectors = kPanelRows / kLanes;
  hn::Vec<decltype(d)> total[kInputs][kVectors];
#pragma GCC unroll 8
  for (auto& row : total)
#pragma GCC unroll 8
    for (auto& value : row) value = hn::Zero(d);
  for (int64_t k = 0; k < cols; ++k) {
    hn::Vec<decltype(d)> w[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) w[v] = hn::LoadU(d, panel + kPanelRows * k + v * kLanes);
#pragma GCC unroll 8
    for (int t = 0; t < kInputs; ++t) {
      const auto value = hn::Set(d, x[t * stride + k]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) total[t][v] = hn::MulAdd(w[v], value, total[t][v]);
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < kInputs; ++t)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) hn::StoreU(total[t][v], d, sums + kPanelRows * t + v * kLanes);
}

// Number of input rows for whose sums the target has registers.
constexpr int kFloatLanes = hn::MaxLanes(hn::CappedTag<float, 16>());
constexpr int kFloatTile = kFloatLanes >= 16 ? 8 : (kFloatLanes == 8 || HWY_TARGET == HWY_NEON ? 4 : 2);

}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();
#endif
