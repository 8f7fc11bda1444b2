// Integer products of the matrix product: rounding inputs, and the portable kernel. Included once per CPU target.
#if defined(OCELLUS_KERNELS_MATMUL_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OCELLUS_KERNELS_MATMUL_CODES_INL_H_
#undef OCELLUS_KERNELS_MATMUL_CODES_INL_H_
#else
#define OCELLUS_KERNELS_MATMUL_CODES_INL_H_
#endif

#include <hwy/highway.h>

#include <bit>
#include <cstring>

#include "kernels/linear/matmul_codes.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Groups below this count as zero: the reciprocal of their scale would overflow.
constexpr float kSmallestInput = 1e-30f;

// Rounds one group of 32 inputs to codes -127..127.
inline HWY_ATTR void round_group(const float* x, int64_t g, int64_t t, const InputCodes& out) {
  const hn::CappedTag<float, 16> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<int8_t, decltype(d)> d8;
  const int lanes = static_cast<int>(hn::Lanes(d));
  // Magnitudes are ordered as their bits are, with what is not a number above all. A group that has any gets a scale
  // that is not a number, so that damaged weights are noticed by the outputs.
  auto largest = hn::Zero(di);
  for (int i = 0; i < kInputGroup; i += lanes)
    largest = hn::Max(largest, hn::BitCast(di, hn::Abs(hn::LoadU(d, x + i))));
  const auto magnitude = std::bit_cast<float>(hn::GetLane(hn::MaxOfLanes(di, largest)));
  const bool zero = magnitude <= kSmallestInput;
  const float scale = zero ? 0.0f : magnitude / 127.0f;
  const auto inverse = hn::Set(d, zero ? 0.0f : 127.0f / magnitude);
  int32_t sums[2];
  for (int half = 0; half < 2; ++half) {
    auto sum = hn::Zero(di);
    for (int i = 16 * half; i < 16 * half + 16; i += lanes) {
      const auto rounded = hn::NearestInt(hn::Mul(hn::LoadU(d, x + i), inverse));
      const auto code = hn::Max(hn::Min(rounded, hn::Set(di, 127)), hn::Set(di, -127));  // no finite input
      hn::StoreU(hn::DemoteTo(d8, code), d8, out.codes(t) + kInputGroup * g + i);
      sum = hn::Add(sum, code);
    }
    sums[half] = hn::GetLane(hn::SumOfLanes(di, sum));
    out.half_offsets(t)[2 * g + half] = -128 * sums[half];
  }
  out.offsets(t)[g] = -128 * (sums[0] + sums[1]);
  out.scales(t)[g] = scale;
  out.sums(t)[g] = scale * static_cast<float>(sums[0] + sums[1]);
}

inline HWY_ATTR void round_row(const float* x, int64_t t, const InputCodes& out) {
  const int64_t groups = out.cols / kInputGroup;
  const auto padding = static_cast<size_t>(out.padded_groups - groups);
  std::memset(out.codes(t) + out.cols, 0, static_cast<size_t>(out.padded_cols - out.cols));
  std::memset(out.scales(t) + groups, 0, padding * sizeof(float));
  std::memset(out.sums(t) + groups, 0, padding * sizeof(float));
  for (int64_t g = 0; g < groups; ++g) round_group(x + kInputGroup * g, g, t, out);
}

// Scale times the sum of kGroup codes, for groups g.. of an input row.
template <int kGroup, class D>
HWY_INLINE hn::Vec<D> load_input_sums(D d, const InputCodes& input, int64_t t, int64_t g) {
  if constexpr (kGroup == kInputGroup) {
    return hn::LoadU(d, input.sums(t) + g);
  } else {
    constexpr size_t kLanes = hn::MaxLanes(D());
    HWY_ALIGN float scales[kLanes];
    for (size_t i = 0; i < kLanes; ++i) scales[i] = kSumOfOffset * input.scales(t)[(g + static_cast<int64_t>(i)) / 2];
    const hn::RebindToSigned<D> di;
    return hn::Mul(hn::ConvertTo(d, hn::LoadU(di, input.half_offsets(t) + g)), hn::Load(d, scales));
  }
}

// Multiplies four weight rows by kInputs input rows, first..first + kInputs - 1; sums [kInputs][4].
template <int kGroup, int kInputs>
HWY_ATTR void multiply_rows(const WeightRows& rows, const InputCodes& input, int64_t first, float* sums) {
  const hn::CappedTag<int16_t, kGroup> d16;
  const hn::Rebind<int8_t, decltype(d16)> d8;
  const hn::RepartitionToWide<decltype(d16)> d32;
  const hn::RebindToFloat<decltype(d32)> df;
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(d16));
  constexpr int kVectors = kGroup / kLanes;
  hn::Vec<decltype(df)> total[4][kInputs];
#pragma GCC unroll 8
  for (auto& row : total)
#pragma GCC unroll 8
    for (auto& value : row) value = hn::Zero(df);

  for (int64_t g = 0; g < input.cols / kGroup; ++g) {
    hn::Vec<decltype(d16)> x[kInputs][kVectors];
    float scales[kInputs];
#pragma GCC unroll 8
    for (int t = 0; t < kInputs; ++t) {
      scales[t] = input.scales(first + t)[g * kGroup / kInputGroup];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v)
        x[t][v] = hn::PromoteTo(d16, hn::LoadU(d8, input.codes(first + t) + g * kGroup + v * kLanes));
    }
#pragma GCC unroll 8
    for (int r = 0; r < 4; ++r) {
      hn::Vec<decltype(d16)> w[kVectors];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v)
        w[v] = hn::PromoteTo(d16, hn::LoadU(d8, rows.codes[r] + g * rows.stride_bytes + v * kLanes));
#pragma GCC unroll 8
      for (int t = 0; t < kInputs; ++t) {
        auto even = hn::Zero(d32), odd = hn::Zero(d32);
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) even = hn::ReorderWidenMulAccumulate(d32, w[v], x[t][v], even, odd);
        const auto scale = hn::Set(df, rows.scales[r][g] * scales[t]);
        total[r][t] = hn::MulAdd(hn::ConvertTo(df, hn::Add(even, odd)), scale, total[r][t]);
      }
    }
  }
  const int64_t minimum_groups = rows.minimums[0] == nullptr ? 0 : input.cols / kGroup;
#pragma GCC unroll 8
  for (int t = 0; t < kInputs; ++t) {
    for (int64_t g = 0; g < minimum_groups; g += static_cast<int64_t>(hn::Lanes(df))) {
      const auto x = load_input_sums<kGroup>(df, input, first + t, g);
#pragma GCC unroll 8
      for (int r = 0; r < 4; ++r) total[r][t] = hn::NegMulAdd(hn::LoadU(df, rows.minimums[r] + g), x, total[r][t]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < 4; ++r) sums[4 * t + r] = hn::GetLane(hn::SumOfLanes(df, total[r][t]));
  }
}

// Multiplies four weight rows by all input rows: calls finish(t, sums of the four rows) for each input row.
template <class Finish>
HWY_ATTR void multiply_rows_by_inputs(const WeightRows& rows, const InputCodes& input, int64_t input_rows,
                                      const Finish& finish) {
  HWY_ALIGN float sums[8];
#if OCELLUS_NATIVE_TARGET
  if (has_native_products()) {
    for (int64_t t = 0; t < input_rows; ++t) {
      multiply_rows_native(rows, input, t, sums);
      finish(t, sums);
    }
    return;
  }
#endif
  int64_t t = 0;
  for (; t + 2 <= input_rows; t += 2) {
    rows.group == 32 ? multiply_rows<32, 2>(rows, input, t, sums) : multiply_rows<16, 2>(rows, input, t, sums);
    finish(t, sums);
    finish(t + 1, sums + 4);
  }
  if (t < input_rows) {
    rows.group == 32 ? multiply_rows<32, 1>(rows, input, t, sums) : multiply_rows<16, 1>(rows, input, t, sums);
    finish(t, sums);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();
#endif
