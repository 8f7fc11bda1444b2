// Scales of a unit of weights for an input row. Included once per CPU target.
#if defined(OCELLUS_KERNELS_BLOCK_ROWS_UNIT_SCALES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OCELLUS_KERNELS_BLOCK_ROWS_UNIT_SCALES_INL_H_
#undef OCELLUS_KERNELS_BLOCK_ROWS_UNIT_SCALES_INL_H_
#else
#define OCELLUS_KERNELS_BLOCK_ROWS_UNIT_SCALES_INL_H_
#endif

#include "kernels/linear/block_rows/floats-inl.h"
#include "kernels/linear/block_rows/products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A unit's scales times those of an input row, and what the row's sums make of its minimums.
template <class Format>
class UnitScales {
 public:
  HWY_INLINE UnitScales() {}

  static constexpr int kGroup = Format::kGroup, kGroups = kUnit / kGroup;
  using Entries = Floats<Format::kMinimum == 0 ? kGroups : 2 * kGroups>;

  // An input row's share in a unit: scales and, if there are minimums, scale times sum of the codes.
  static HWY_INLINE Entries read_input(const InputCodes& input, int64_t t, int64_t unit) {
    Floats<kGroups> scales, sums;
    if constexpr (kGroup == kInputGroup) {
      scales = load_floats<8>(input.scales(t) + 8 * unit);
      if constexpr (Format::kMinimum != 0) sums = load_floats<8>(input.sums(t) + 8 * unit);
    } else {
      scales = repeat(input.scales(t) + 8 * unit);
      if constexpr (Format::kMinimum != 0) sums = sum_halves(input.half_offsets(t) + 16 * unit, scales);
    }
    if constexpr (Format::kShifted) scales = scaled(scales, load_floats<kGroups>(Format::kFactors));
    if constexpr (Format::kMinimum != 0) {
      return append(scales, sums);
    } else {
      return scales;
    }
  }

  HWY_INLINE void set(const Entries& weights, const Entries& input) {
    products_ = scaled(weights, input);
    if constexpr (kParts > 1)
      for (int i = 0; i < Floats<kGroups>::kVectors; ++i)
        hn::Store(products_.part[i], typename Entries::Tag(), memory_ + Entries::kLanes * i);
  }

  template <int kChunk>
  HWY_INLINE hn::Vec<LaneTag> lanes(int part) const {
    if constexpr (kParts > 1) {
      return spread_scales<kGroup, kChunk>(memory_, part);
    } else if constexpr (Entries::kLanes == 16) {
      return spread_scales<kGroup, kChunk>(products_.part[0]);
    } else {
      return spread_scales<kGroup, kChunk>(hn::ZeroExtendVector(LaneTag(), products_.part[0]));
    }
  }

  using Total = hn::Vec<typename Entries::Tag>;
  HWY_INLINE Total add_minimums(Total total) const {
    constexpr int kFirst = Entries::kLanes > kGroups ? 0 : Entries::kVectors / 2;
    for (int i = kFirst; i < Entries::kVectors; ++i) total = hn::Add(total, products_.part[i]);
    return total;
  }
  static HWY_INLINE float sum_minimums(Total total) {
    const typename Entries::Tag d;
    if constexpr (Entries::kLanes > kGroups) total = hn::IfThenZeroElse(hn::FirstN(d, kGroups), total);
    return hn::GetLane(hn::SumOfLanes(d, total));
  }

 private:
  // Each of eight scales twice.
  static HWY_INLINE Floats<16> repeat(const float* scales) {
#if OCELLUS_VNNI
    HWY_ALIGN static constexpr int32_t kTwice[16] = {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7};
    const auto eight = hn::ZeroExtendVector(LaneTag(), load_floats<8>(scales).part[0]);
    Floats<16> twice;
    twice.part[0] = hn::TableLookupLanes(eight, hn::SetTableIndices(LaneTag(), kTwice));
    return twice;
#else
    const hn::Full128<float> d;
    HWY_ALIGN float twice[16];
    for (int i = 0; i < 8; i += 4) {
      const auto four = hn::LoadU(d, scales + i);
      hn::Store(hn::InterleaveLower(d, four, four), d, twice + 2 * i);
      hn::Store(hn::InterleaveUpper(d, four, four), d, twice + 2 * i + 4);
    }
    return load_floats<16>(twice);
#endif
  }
  // Scale times the sum of 16 codes, out of -128 times the sums.
  static HWY_INLINE Floats<16> sum_halves(const int32_t* offsets, Floats<16> scales) {
    const Floats<16>::Tag d;
    const hn::RebindToSigned<decltype(d)> di;
    for (int i = 0; i < Floats<16>::kVectors; ++i)
      scales.part[i] = hn::Mul(hn::Mul(scales.part[i], hn::Set(d, kSumOfOffset)),
                               hn::ConvertTo(d, hn::LoadU(di, offsets + Floats<16>::kLanes * i)));
    return scales;
  }

  Entries products_;
  HWY_ALIGN float memory_[kParts > 1 ? 16 : 1];
};

}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();
#endif
