// Rows of f16 and of codes read as vectors of floats. Compiled once per Highway target.
//
// HalfRows and CodeRows are for decoding, which reads a row once: in the cheapest order and scale. expand_codes is for
// prefill, where many queries read each row.
#if defined(OCELLUS_KERNELS_KV_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef OCELLUS_KERNELS_KV_ROWS_INL_H
#undef OCELLUS_KERNELS_KV_ROWS_INL_H
#else
#define OCELLUS_KERNELS_KV_ROWS_INL_H
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/base/kv_run.h"
#include "kernels/base/scale_row-inl.h"
#include "kernels/base/vectors-inl.h"
#include "platform/round_up.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {

/// Rows are read in groups, a vector of stored values each; every group gives picks() vectors of floats. f16 rows: one
/// pick per group, and position e of a row is channel e.
struct HalfRows {
  static constexpr bool kSinglePick = true;
  const Half* first;
  int64_t dim;

  int64_t groups(int64_t lanes) const { return dim / lanes; }
  static constexpr int64_t picks() { return 1; }
  const Half* row(int64_t slot) const { return first + slot * dim; }
  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, const Half* row, int64_t group) const {
    return load_halves(d, row + group * static_cast<int64_t>(hn::MaxLanes(D())));
  }
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V pick(D, V loaded, int64_t) const {
    return loaded;
  }
};

/// The order in which codes are extracted from whole bytes without shifts: a group is as many bytes as a vector has
/// lanes, and pick j of it holds the j-th code of every byte, still multiplied by its power of two. Queries are
/// permuted to this order, and sums of values back from it, once for many rows.
struct CodeOrder {
  int64_t picks, lanes, row_bytes, groups;
  uint32_t mask[8];  // by pick: mask of the code in the byte
  float unit[8];     // by pick: factor that gives the code

  CodeOrder(const CodeMatrix& codes, int64_t lanes_)
      : picks(8 / codes.bits), lanes(lanes_), row_bytes(codes.row_bytes), groups(divide_up(row_bytes, lanes)) {
    for (int64_t j = 0; j < picks; ++j) {
      const int32_t shift = static_cast<int32_t>(8 - codes.bits - codes.bits * j);
      mask[j] = ((1u << codes.bits) - 1) << shift;
      unit[j] = 1.0f / static_cast<float>(1 << shift);
    }
  }
  /// First byte of a group. A last, incomplete group overlaps the one before it.
  int64_t byte(int64_t group) const { return std::min(group * lanes, row_bytes - lanes); }
  int64_t overlap(int64_t group) const { return group * lanes - byte(group); }
  int64_t channel(int64_t group, int64_t pick) const { return byte(group) * picks + pick; }  // channel of lane 0
  int64_t position(int64_t group, int64_t pick) const { return (group * picks + pick) * lanes; }
};

/// Rows of codes in CodeOrder; kIsByte: 8-bit codes.
template <bool kIsByte>
struct CodeRows {
  static constexpr bool kSinglePick = kIsByte;
  const uint8_t* first;
  int64_t row_bytes;
  const CodeOrder* order;

  int64_t groups(int64_t) const { return order->groups; }
  int64_t picks() const { return kIsByte ? 1 : order->picks; }
  const uint8_t* row(int64_t slot) const { return first + slot * row_bytes; }
  template <class D>
  HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> load(D, const uint8_t* row, int64_t group) const {
    const hn::RebindToUnsigned<D> words;
    const hn::Rebind<uint8_t, D> bytes;
    return hn::PromoteTo(words, hn::LoadU(bytes, row + order->byte(group)));
  }
  template <class D, class V>
  HWY_INLINE hn::Vec<D> pick(D d, V loaded, int64_t j) const {
    const hn::RebindToUnsigned<D> words;
    const hn::RebindToSigned<D> integers;
    if constexpr (!kIsByte) loaded = hn::And(loaded, hn::Set(words, order->mask[j]));
    return hn::ConvertTo(d, hn::BitCast(integers, loaded));
  }
};

/// Calls body(d) with the widest vector that a row of `row_bytes` bytes fills.
template <class Body>
HWY_INLINE void with_code_lanes(int64_t row_bytes, Body body) {
  if constexpr (kLanes >= 16) {
    if (row_bytes >= 16) return body(FloatTag());
  }
  if constexpr (kLanes >= 8) {
    if (row_bytes >= 8) return body(hn::CappedTag<float, 8>());
  }
  if constexpr (kLanes >= 4) {
    if (row_bytes >= 4) return body(hn::CappedTag<float, 4>());
  }
  body(hn::CappedTag<float, 1>());
}

/// folded . codes + the returned constant = query . keys.
template <class D>
HWY_INLINE float fold_keys(D d, const CodeOrder& order, const PackedRows& rows, const float* query, int64_t dim,
                           float* folded) {
  const EightTag eight;
  const hn::RebindToSigned<D> integers;
  HWY_ALIGN float stepped[kMaxHeadDim];
  const ScaleRow offsets(rows, kKeyOffsets), steps(rows, kKeySteps);
  auto constant = hn::Zero(eight);
  for (int64_t e = 0; e < dim; e += static_cast<int64_t>(hn::Lanes(eight))) {
    const auto q = hn::LoadU(eight, query + e);
    constant = hn::MulAdd(q, load_halves(eight, offsets.data() + e), constant);
    hn::Store(hn::Mul(q, load_halves(eight, steps.data() + e)), eight, stepped + e);
  }
  const auto every = hn::Mul(hn::Iota(integers, 0), hn::Set(integers, static_cast<int32_t>(order.picks)));
  for (int64_t group = 0; group < order.groups; ++group) {
    const auto repeated = hn::FirstN(d, static_cast<size_t>(order.overlap(group)));
    for (int64_t j = 0; j < order.picks; ++j) {
      const auto q = hn::GatherIndex(d, stepped + order.channel(group, j), every);
      const auto scaled = hn::Mul(q, hn::Set(d, order.unit[j]));
      hn::StoreU(hn::IfThenZeroElse(repeated, scaled), d, folded + order.position(group, j));
    }
  }
  return hn::GetLane(hn::SumOfLanes(eight, constant));
}

/// mixed += the weighted sum of values, from the weighted sum of their codes and the sum of the weights.
HWY_INLINE void unfold_values(const CodeOrder& order, const PackedRows& rows, const float* sums, float weight_sum,
                              int64_t dim, float* mixed) {
  const EightTag eight;
  HWY_ALIGN float codes[kMaxHeadDim];
  for (int64_t group = 0; group < order.groups; ++group) {
    for (int64_t j = 0; j < order.picks; ++j) {
      const float* from = sums + order.position(group, j);
      float* to = codes + order.channel(group, j);
      for (int64_t k = 0; k < order.lanes; ++k) to[k * order.picks] = from[k] * order.unit[j];
    }
  }
  const ScaleRow offset_row(rows, kValueOffsets), step_row(rows, kValueSteps);
  const auto weights = hn::Set(eight, weight_sum);
  for (int64_t e = 0; e < dim; e += static_cast<int64_t>(hn::Lanes(eight))) {
    const auto offsets = load_halves(eight, offset_row.data() + e);
    const auto steps = load_halves(eight, step_row.data() + e);
    const auto sum = hn::MulAdd(offsets, weights, hn::LoadU(eight, mixed + e));
    hn::StoreU(hn::MulAdd(steps, hn::Load(eight, codes + e), sum), eight, mixed + e);
  }
}

/// to[e] = offsets[e] + steps[e] * code e of a slot's row.
HWY_INLINE void expand_codes(const CodeMatrix& codes, int64_t slot, const Half* offsets, const Half* steps, int64_t dim,
                             float* to) {
  const uint8_t* const row = codes.row(slot);
  const int32_t bits = codes.bits;
  const EightTag d;
  const hn::RebindToUnsigned<EightTag> words;
  const hn::RebindToSigned<EightTag> integers;
  const hn::Rebind<uint8_t, EightTag> bytes;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto width = hn::Set(words, static_cast<uint32_t>(bits)), mask = hn::Set(words, (1u << bits) - 1);
  const auto first_shift = hn::Mul(hn::Sub(hn::Set(words, 7), hn::Iota(words, 0)), width);
  for (int64_t e = 0; e < dim; e += 8) {
    // Eight codes of up to 4 bits form one word, the first in its upper bits.
    uint32_t word = 0;
    for (int32_t i = 0; bits < 8 && i < bits; ++i) word = word << 8 | row[e / 8 * bits + i];
    for (int64_t k = 0; k < 8; k += lanes) {
      hn::Vec<decltype(words)> levels;
      if (bits == 8) {
        levels = hn::PromoteTo(words, hn::LoadU(bytes, row + e + k));
      } else {
        const auto shift = hn::Sub(first_shift, hn::Set(words, static_cast<uint32_t>(bits * k)));
        levels = hn::And(hn::Shr(hn::Set(words, word), shift), mask);
      }
      const auto numbers = hn::ConvertTo(d, hn::BitCast(integers, levels));
      const int64_t at = e + k;
      hn::StoreU(hn::MulAdd(load_halves(d, steps + at), numbers, load_halves(d, offsets + at)), d, to + at);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#endif  // OCELLUS_KERNELS_KV_ROWS_INL_H
