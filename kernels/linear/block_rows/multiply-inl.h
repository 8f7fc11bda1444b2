// Integer products of few input rows with block weights, which are decoded in registers as they are read: the products
// of decoding, whose time is that of reading the weights. Included once per CPU target.
#if defined(OCELLUS_KERNELS_BLOCK_ROWS_MULTIPLY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OCELLUS_KERNELS_BLOCK_ROWS_MULTIPLY_INL_H_
#undef OCELLUS_KERNELS_BLOCK_ROWS_MULTIPLY_INL_H_
#else
#define OCELLUS_KERNELS_BLOCK_ROWS_MULTIPLY_INL_H_
#endif

#include "kernels/linear/block_rows/super_blocks-inl.h"
#include "kernels/linear/block_rows/unit_scales-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Weight rows at a time, which share what is made of inputs. Where vectors are short, sums of several do not fit into
// the registers.
inline constexpr int kRows = kPart >= 32 || HWY_ARCH_ARM_A64 ? 4 : 1;

/// kRows weight rows and the input rows first..first + kInputs - 1.
template <class Format, int kInputs, bool kNative>
class BlockProducts {
 public:
  HWY_INLINE BlockProducts(const uint8_t* const* rows, int64_t ahead, const InputCodes& input, int64_t first)
      : rows_(rows), ahead_(ahead), input_(input), first_(first) {
    for (int r = 0; r < kRows; ++r)
      for (int t = 0; t < kInputs; ++t) {
        totals_[r][t] = hn::Zero(LaneTag());
        minimums_[r][t] = hn::Zero(typename Scales::Entries::Tag());
      }
  }

  /// Writes [kInputs][kRows] sums.
  HWY_INLINE void multiply(float* sums) {
    const int64_t units = input_.cols / kUnit;
    for (int64_t unit = 0; unit < units; ++unit) add_unit(unit);
    if constexpr (Format::kElements < kUnit)
      for (int64_t g = 8 * units; g < input_.cols / 32; g += 2) add_two_blocks(g);
    for (int t = 0; t < kInputs; ++t)
      for (int r = 0; r < kRows; ++r) {
        float& sum = sums[kRows * t + r] = hn::GetLane(hn::SumOfLanes(LaneTag(), totals_[r][t]));
        if constexpr (Format::kMinimum != 0)
          sum += Format::kMinimum * Scales::sum_minimums(minimums_[r][t]) + rest_[r][t];
      }
  }

 private:
  using Scales = UnitScales<Format>;
  static constexpr int64_t kUnitBytes = kUnit / Format::kElements * Format::kBytes;

  // Codes that the product wants unsigned, and what that adds to a code.
  static constexpr bool kFlipped = OCELLUS_VNNI && Format::kSigned;
  static constexpr int kOffset = kFlipped ? 128 : Format::kOffset;

  HWY_INLINE void add_unit(int64_t unit) {
    typename Scales::Entries inputs[kInputs];
    for (int t = 0; t < kInputs; ++t) inputs[t] = Scales::read_input(input_, first_ + t, unit);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const uint8_t* at = rows_[r] + unit * kUnitBytes;
      fetch_weights(at + ahead_, kUnitBytes);
      const auto scales = Format::scales(at);
#pragma GCC unroll 4
      for (int t = 0; t < kInputs; ++t) {
        scales_[r][t].set(scales, inputs[t]);
        if constexpr (Format::kMinimum != 0) minimums_[r][t] = scales_[r][t].add_minimums(minimums_[r][t]);
      }
    }
    add_chunk<0>(unit);
    add_chunk<1>(unit);
    add_chunk<2>(unit);
    add_chunk<3>(unit);
  }

  template <int kChunk>
  HWY_INLINE void add_chunk(int64_t unit) {
    read_inputs(kUnit * unit + 64 * kChunk);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const uint8_t* at = rows_[r] + unit * kUnitBytes;
      const auto lanes = [&](int t, int part) HWY_ATTR { return scales_[r][t].template lanes<kChunk>(part); };
      if constexpr (Format::kElements == kUnit) {
        add_codes(r, format_.template codes<kChunk>(at), lanes);
      } else {
        at += 2 * kChunk * Format::kBytes;
        add_codes(r, format_.codes(at, at + Format::kBytes), lanes);
      }
    }
  }

  // Blocks g and g + 1 of a row. If there is no second, the first stands in for it: inputs after the end are zero.
  HWY_INLINE void add_two_blocks(int64_t g) {
    read_inputs(32 * g);
    for (int r = 0; r < kRows; ++r) {
      const uint8_t* at = rows_[r] + g * Format::kBytes;
      const uint8_t* next = 32 * (g + 1) < input_.cols ? at + Format::kBytes : at;
      const float scales[2] = {Format::scale(at), Format::scale(next)};
      add_codes(r, format_.codes(at, next), [&](int t, int part) HWY_ATTR {
        const LaneTag d;
        const float* x = input_.scales(first_ + t) + g;
        const auto first = hn::Set(d, scales[0] * x[0]), second = hn::Set(d, scales[1] * x[1]);
        if constexpr (kParts == 1) return hn::IfThenElse(hn::FirstN(d, kPart / 8), first, second);
        return part < kParts / 2 ? first : second;
      });
      if constexpr (Format::kMinimum != 0)
        for (int t = 0; t < kInputs; ++t) {
          const float* sums = input_.sums(first_ + t) + g;
          rest_[r][t] += Format::minimum(at) * sums[0] + Format::minimum(next) * sums[1];
        }
    }
  }

  HWY_INLINE void read_inputs(int64_t first_code) {
    for (int t = 0; t < kInputs; ++t) {
      x_[t] = load_chunk(input_.codes(first_ + t) + first_code);
      for (int p = 0; p < kParts; ++p) {
        const auto zero = hn::Zero(SumTag());
        start_[t][p] = zero;
        if constexpr (kOffset != 0)
          start_[t][p] = hn::Sub(zero, add_products<false, kNative>(zero, hn::Set(ByteTag(), kOffset), x_[t].part[p]));
      }
    }
  }

  template <class Lanes>
  HWY_INLINE void add_codes(int r, Chunk codes, const Lanes& lanes) {
#pragma GCC unroll 4
    for (int p = 0; p < kParts; ++p) {
      if constexpr (kFlipped) codes.part[p] = hn::Xor(codes.part[p], hn::Set(ByteTag(), uint8_t{128}));
#pragma GCC unroll 4
      for (int t = 0; t < kInputs; ++t) {
        const auto sums = add_products<Format::kSigned, kNative>(start_[t][p], codes.part[p], x_[t].part[p]);
        totals_[r][t] = hn::MulAdd(hn::ConvertTo(LaneTag(), sums), lanes(t, p), totals_[r][t]);
      }
    }
  }

  const Format format_{};
  const uint8_t* const* rows_;
  const int64_t ahead_;  // distance to the rows that are fetched meanwhile
  const InputCodes& input_;
  const int64_t first_;
  Chunk x_[kInputs];                        // 64 codes of each input
  hn::Vec<SumTag> start_[kInputs][kParts];  // undoes kOffset
  Scales scales_[kRows][kInputs];
  hn::Vec<LaneTag> totals_[kRows][kInputs];
  typename Scales::Total minimums_[kRows][kInputs];
  float rest_[kRows][kInputs] = {};  // minimums of the blocks after the units
};

template <class Format, bool kNative, class Finish>
HWY_ATTR void multiply_blocks(const uint8_t* const* rows, int64_t row_bytes, const InputCodes& input,
                              int64_t input_rows, const Finish& finish) {
  const int64_t ahead = round_up(kWeightsAhead, kRows * row_bytes);
  HWY_ALIGN float sums[2 * kRows];
  int64_t t = 0;
  if constexpr (kRows > 1)
    for (; t + 2 <= input_rows; t += 2) {
      BlockProducts<Format, 2, kNative>(rows, ahead, input, t).multiply(sums);
      finish(t, sums);
      finish(t + 1, sums + kRows);
    }
  for (; t < input_rows; ++t) {
    BlockProducts<Format, 1, kNative>(rows, ahead, input, t).multiply(sums);
    finish(t, sums);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();
#endif
