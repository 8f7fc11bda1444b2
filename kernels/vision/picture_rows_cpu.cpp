#include <algorithm>

#include "kernels/base/highway_targets.h"
#include "kernels/vision/picture_rows.h"
#include "kernels/vision/resample_math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/vision/picture_rows_cpu.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using PixelTag = hn::CappedTag<int16_t, AlongFilter::kStep>;
using PixelSumTag = hn::RepartitionToWide<PixelTag>;
using PixelSums = hn::Vec<PixelSumTag>;
using SumTag = hn::ScalableTag<int32_t>;
using ByteTag = hn::Rebind<uint8_t, SumTag>;
using Sums = hn::Vec<SumTag>;

inline constexpr int64_t kSums = static_cast<int64_t>(hn::MaxLanes(SumTag()));

/// Channels of a row in three arrays.
void split_channels(const uint8_t* row, int64_t pixels, uint8_t* channels, int64_t stride) {
  const hn::CappedTag<uint8_t, 16> d;
  const int64_t step = static_cast<int64_t>(hn::Lanes(d));
  int64_t x = 0;
  for (; x + step <= pixels; x += step) {
    hn::Vec<decltype(d)> red, green, blue;
    hn::LoadInterleaved3(d, row + 3 * x, red, green, blue);
    hn::StoreU(red, d, channels + x);
    hn::StoreU(green, d, channels + stride + x);
    hn::StoreU(blue, d, channels + 2 * stride + x);
  }
  for (; x < pixels; ++x)
    for (int c = 0; c < 3; ++c) channels[c * stride + x] = row[3 * x + c];
}

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void store_pixel(const PixelSums sums[3], bool, uint8_t* output) {
  for (int c = 0; c < 3; ++c) output[c] = picture::round_sum(picture::kWeightHalf + hn::GetLane(sums[c]));
}
#else
using QuadTag = hn::CappedTag<int32_t, 4>;
using Quad = hn::Vec<QuadTag>;

HWY_INLINE Quad add_halves(Quad sums) { return sums; }
template <class V>
HWY_INLINE Quad add_halves(V sums) {
  return hn::Add(hn::LowerHalf(QuadTag(), sums), hn::UpperHalf(QuadTag(), sums));
}

HWY_INLINE Quad add_pairs(Quad a, Quad b) {
  return hn::Add(hn::InterleaveLower(QuadTag(), a, b), hn::InterleaveUpper(QuadTag(), a, b));
}

/// Adds the lanes of each channel's sums and stores the rounded values; before the last pixel of a row also a fourth
/// byte, which the next pixel overwrites.
HWY_INLINE void store_pixel(const PixelSums sums[3], bool is_last, uint8_t* output) {
  const QuadTag d;
  const hn::Rebind<uint8_t, QuadTag> bytes;
  const Quad red_blue = add_pairs(add_halves(sums[0]), add_halves(sums[2]));
  const Quad channels = add_pairs(red_blue, add_pairs(add_halves(sums[1]), hn::Zero(d)));
  const Quad rounded = hn::ShiftRight<picture::kWeightBits>(hn::Add(channels, hn::Set(d, picture::kWeightHalf)));
  if (!is_last) return hn::StoreU(hn::DemoteTo(bytes, rounded), bytes, output);
  uint8_t pixel[4];
  hn::StoreU(hn::DemoteTo(bytes, rounded), bytes, pixel);
  std::copy_n(pixel, 3, output);
}
#endif

/// Sums of one window in three channels, which share its weights; a sum is that of all lanes.
HWY_INLINE void sum_window(const uint8_t* const channels[3], int32_t count, const int16_t* high, const int16_t* low,
                           PixelSums sums[3]) {
  const PixelTag d;
  const PixelSumTag ds;
  const hn::Rebind<uint8_t, PixelTag> bytes;
  PixelSums highs[3], lows[3], odd_highs[3], odd_lows[3];
  for (int c = 0; c < 3; ++c) highs[c] = lows[c] = odd_highs[c] = odd_lows[c] = hn::Zero(ds);
  for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::Lanes(d))) {
    const auto h = hn::LoadU(d, high + i), l = hn::LoadU(d, low + i);
    for (int c = 0; c < 3; ++c) {
      const auto pixels = hn::PromoteTo(d, hn::LoadU(bytes, channels[c] + i));
      highs[c] = hn::ReorderWidenMulAccumulate(ds, pixels, h, highs[c], odd_highs[c]);
      lows[c] = hn::ReorderWidenMulAccumulate(ds, pixels, l, lows[c], odd_lows[c]);
    }
  }
  for (int c = 0; c < 3; ++c)
    sums[c] =
        hn::Add(hn::ShiftLeft<AlongFilter::kLowBits>(hn::Add(highs[c], odd_highs[c])), hn::Add(lows[c], odd_lows[c]));
}

void filter_pixels(const AlongFilter& filter, const uint8_t* row, uint8_t* output) {
  const int64_t channel = AlongFilter::channel_stride(filter.source_length);
  const int64_t stride = AlongFilter::weight_stride(filter.capacity);
  split_channels(row, filter.source_length, filter.channels, channel);
  const int16_t* weights = filter.weights;
  for (int32_t x = 0; x < filter.target_length; ++x, weights += 2 * stride) {
    const FilterWindow window = filter.windows[x];
    const uint8_t* first = filter.channels + window.first;
    const uint8_t* const channels[3] = {first, first + channel, first + 2 * channel};
    PixelSums sums[3];
    sum_window(channels, window.count, weights, weights + stride, sums);
    store_pixel(sums, x + 1 == filter.target_length, output + int64_t{3} * x);
  }
}

HWY_INLINE Sums load_bytes(const uint8_t* from) { return hn::PromoteTo(SumTag(), hn::LoadU(ByteTag(), from)); }

HWY_INLINE void store_bytes(Sums sums, uint8_t* to) {
  hn::StoreU(hn::DemoteTo(ByteTag(), hn::ShiftRight<picture::kWeightBits>(sums)), ByteTag(), to);
}

void sum_rows(const AcrossArgs& args, uint8_t* output) {
  constexpr int kVectors = 4;
  const SumTag d;
  int64_t j = 0;
  for (; j + kVectors * kSums <= args.bytes; j += kVectors * kSums) {
    Sums sums[kVectors];
    for (int v = 0; v < kVectors; ++v) sums[v] = hn::Set(d, picture::kWeightHalf);
    int32_t at = args.window.first % args.ring_rows;
    for (int32_t i = 0; i < args.window.count; ++i, at = at + 1 == args.ring_rows ? 0 : at + 1) {
      const Sums weight = hn::Set(d, args.weights[i]);
      const uint8_t* row = args.ring + at * args.bytes + j;
      for (int v = 0; v < kVectors; ++v) sums[v] = hn::Add(sums[v], hn::Mul(load_bytes(row + v * kSums), weight));
    }
    for (int v = 0; v < kVectors; ++v) store_bytes(sums[v], output + j + v * kSums);
  }
  for (; j < args.bytes; ++j) {
    int32_t sum = picture::kWeightHalf;
    for (int32_t i = 0; i < args.window.count; ++i)
      sum += args.ring[(args.window.first + i) % args.ring_rows * args.bytes + j] * args.weights[i];
    output[j] = picture::round_sum(sum);
  }
}

void add_row(const uint8_t* row, int32_t weight, int64_t bytes, int32_t* sums) {
  const SumTag d;
  int64_t j = 0;
  for (; j + kSums <= bytes; j += kSums)
    hn::StoreU(hn::Add(hn::LoadU(d, sums + j), hn::Mul(load_bytes(row + j), hn::Set(d, weight))), d, sums + j);
  for (; j < bytes; ++j) sums[j] += row[j] * weight;
}

void round_values(const int32_t* sums, int64_t bytes, uint8_t* output) {
  int64_t j = 0;
  for (; j + kSums <= bytes; j += kSums) store_bytes(hn::LoadU(SumTag(), sums + j), output + j);
  for (; j < bytes; ++j) output[j] = picture::round_sum(sums[j]);
}

void normalise_pixels(const Normalisation& normalisation, const uint8_t* rgb, int64_t pixels, float* const planes[3]) {
  const hn::CappedTag<float, 16> d;
  const hn::Rebind<int32_t, decltype(d)> whole;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  const int64_t step = static_cast<int64_t>(hn::Lanes(d));
  const auto most = hn::Set(d, 255.0f);
  int64_t x = 0;
  for (; x + step <= pixels; x += step) {
    hn::Vec<decltype(bytes)> channels[3];
    hn::LoadInterleaved3(bytes, rgb + 3 * x, channels[0], channels[1], channels[2]);
    for (int c = 0; c < 3; ++c) {
      const auto value = hn::ConvertTo(d, hn::PromoteTo(whole, channels[c]));
      const auto centred = hn::Sub(hn::Div(value, most), hn::Set(d, normalisation.mean[c]));
      hn::StoreU(hn::Div(centred, hn::Set(d, normalisation.std[c])), d, planes[c] + x);
    }
  }
  for (; x < pixels; ++x)
    for (int c = 0; c < 3; ++c)
      planes[c][x] = picture::normalise(rgb[3 * x + c], normalisation.mean[c], normalisation.std[c]);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ocellus {

HWY_EXPORT(filter_pixels);
HWY_EXPORT(sum_rows);
HWY_EXPORT(add_row);
HWY_EXPORT(round_values);
HWY_EXPORT(normalise_pixels);

void AlongFilter::set(int32_t at, const FilterWindow& window, const int32_t* values) {
  const int64_t stride = weight_stride(capacity);
  int16_t* const high = weights + 2 * stride * at;
  std::fill_n(high, 2 * stride, int16_t{0});
  for (int32_t i = 0; i < window.count; ++i) {
    high[i] = static_cast<int16_t>(values[i] >> kLowBits);
    high[stride + i] = static_cast<int16_t>(values[i] & ((1 << kLowBits) - 1));
  }
  windows[at] = window;
}

void filter_along(const AlongFilter& filter, const uint8_t* row, uint8_t* output) {
  HWY_DYNAMIC_DISPATCH(filter_pixels)(filter, row, output);
}

void filter_across(const AcrossArgs& args, uint8_t* output) { HWY_DYNAMIC_DISPATCH(sum_rows)(args, output); }

void add_weighted_row(const uint8_t* row, int32_t weight, int64_t bytes, int32_t* sums) {
  HWY_DYNAMIC_DISPATCH(add_row)(row, weight, bytes, sums);
}

void round_sums(const int32_t* sums, int64_t bytes, uint8_t* output) {
  HWY_DYNAMIC_DISPATCH(round_values)(sums, bytes, output);
}

void normalise_row(const Normalisation& normalisation, const uint8_t* rgb, int64_t pixels, float* const planes[3]) {
  HWY_DYNAMIC_DISPATCH(normalise_pixels)(normalisation, rgb, pixels, planes);
}

}  // namespace ocellus
#endif  // HWY_ONCE
