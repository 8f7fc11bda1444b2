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

}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();
#endif
