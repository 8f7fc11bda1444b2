// The loops of attend_one over the rows of a piece. Compiled once per Highway target.
#if defined(OCELLUS_KERNELS_ATTEND_ONE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef OCELLUS_KERNELS_ATTEND_ONE_INL_H
#undef OCELLUS_KERNELS_ATTEND_ONE_INL_H
#else
#define OCELLUS_KERNELS_ATTEND_ONE_INL_H
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/attention/attend_one.h"
#include "kernels/attention/attend_one_token-inl.h"
#include "kernels/base/kv_rows-inl.h"
#include "kernels/base/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {

/// Slots whose scores are reduced together; score rows have this much room after their last slot.
inline constexpr int64_t kSlotTile = 4;

#if HWY_TARGET != HWY_SCALAR
/// to[0..3] = the sum of the vector's 4-lane blocks.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void store_block_sum(D d, V v, float* to) {
  if constexpr (hn::MaxLanes(D()) > 4) {
    const hn::Half<D> half;
    store_block_sum(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)), to);
  } else {
    hn::StoreU(v, d, to);
  }
}
#endif

/// to[0..3] = sums over the lanes of a, b, c and e.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void store_sums(D d, V a, V b, V c, V e, float* to) {
  if constexpr (hn::MaxLanes(D()) == 1) {
    const V each[4] = {a, b, c, e};
    for (int i = 0; i < 4; ++i) hn::StoreU(each[i], d, to + i);
  } else {
#if HWY_TARGET != HWY_SCALAR
    const hn::Repartition<uint64_t, D> pairs;
    const auto ab = hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
    const auto ce = hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e)));
    const V blocks =
        hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, ab, ce)), hn::BitCast(d, hn::InterleaveUpper(pairs, ab, ce)));
    store_block_sum(d, blocks, to);
#endif
  }
}

/// scores[h][i] = queries[h] . keys[i], for kHeads heads. Writes up to kSlotTile - 1 scores after the last slot.
template <class D, int kHeads, class Rows>
HWY_INLINE void score_slots(D d, const Rows& keys, int64_t count, const float* queries, int64_t query_stride,
                            float* scores) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t groups = keys.groups(lanes);
  for (int64_t i = 0; i < count; i += kSlotTile) {
    decltype(keys.row(0)) key[kSlotTile];  // after the end, the last slot again
    for (int64_t s = 0; s < kSlotTile; ++s) key[s] = keys.row(std::min(i + s, count - 1));
    hn::Vec<D> sums[kSlotTile][kHeads];
    for (int64_t s = 0; s < kSlotTile; ++s) {
      for (int h = 0; h < kHeads; ++h) sums[s][h] = hn::Zero(d);
    }
    for (int64_t group = 0; group < groups; ++group) {
      decltype(keys.load(d, key[0], 0)) loaded[kSlotTile];
      for (int64_t s = 0; s < kSlotTile; ++s) loaded[s] = keys.load(d, key[s], group);
      for (int64_t j = 0; j < keys.picks(); ++j) {
        const float* query = queries + (group * keys.picks() + j) * lanes;
        for (int64_t s = 0; s < kSlotTile; ++s) {
          const auto k = keys.pick(d, loaded[s], j);
          for (int h = 0; h < kHeads; ++h)
            sums[s][h] = hn::MulAdd(k, hn::LoadU(d, query + h * query_stride), sums[s][h]);
        }
      }
    }
    for (int h = 0; h < kHeads; ++h) {
      store_sums(d, sums[0][h], sums[1][h], sums[2][h], sums[3][h], scores + h * kAttendScoreRow + i);
    }
  }
}

/// Scores of slots of a packed run.
template <int kHeads>
HWY_NOINLINE void score_codes(const PackedRows& rows, int64_t slot, int64_t count, const float* queries, int64_t dim,
                              float* scores) {
  with_code_lanes(rows.keys.row_bytes, [&](auto d) HWY_ATTR {
    const CodeOrder order(rows.keys, static_cast<int64_t>(hn::Lanes(d)));
    HWY_ALIGN float folded[kHeads * kMaxHeadDim];
    float constants[kHeads];
    for (int h = 0; h < kHeads; ++h)
      constants[h] = fold_keys(d, order, rows, queries + h * dim, dim, folded + h * kMaxHeadDim);
    const uint8_t* first = rows.keys.row(slot);
    if (rows.keys.bits == 8) {
      const CodeRows<true> keys{first, rows.keys.row_bytes, &order};
      score_slots<decltype(d), kHeads>(d, keys, count, folded, kMaxHeadDim, scores);
    } else {
      const CodeRows<false> keys{first, rows.keys.row_bytes, &order};
      score_slots<decltype(d), kHeads>(d, keys, count, folded, kMaxHeadDim, scores);
    }
    for (int h = 0; h < kHeads; ++h) {
      for (int64_t i = 0; i < count; ++i) scores[h * kAttendScoreRow + i] += constants[h];
    }
  });
}

/// mixed[h][..] += sum over slots of weights[h][i] * values[i], for picks `pick` .. of groups `group` ..
template <class D, int kHeads, int kGroups, int kPicks, class Rows>
HWY_INLINE void mix_groups(D d, const Rows& values, int64_t group, int64_t pick, int64_t count, const float* weights,
                           float* mixed, int64_t mixed_stride) {
  constexpr int kVectors = kGroups * kPicks;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  mixed += (group * values.picks() + pick) * lanes;
  hn::Vec<D> sums[kHeads][kVectors];
  for (int h = 0; h < kHeads; ++h) {
    for (int v = 0; v < kVectors; ++v) sums[h][v] = hn::LoadU(d, mixed + h * mixed_stride + v * lanes);
  }
  for (int64_t i = 0; i < count; ++i) {
    const auto row = values.row(i);
    hn::Vec<D> value[kVectors];
    for (int g = 0; g < kGroups; ++g) {
      const auto loaded = values.load(d, row, group + g);
      for (int j = 0; j < kPicks; ++j) value[g * kPicks + j] = values.pick(d, loaded, pick + j);
    }
    for (int h = 0; h < kHeads; ++h) {
      const auto weight = hn::Set(d, weights[h * kAttendScoreRow + i]);
      for (int v = 0; v < kVectors; ++v) sums[h][v] = hn::MulAdd(weight, value[v], sums[h][v]);
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[h][v], d, mixed + h * mixed_stride + v * lanes);
  }
}

/// The same for whole rows: four vectors at a time while there are as many.
template <class D, int kHeads, class Rows>
HWY_INLINE void mix_slots(D d, const Rows& values, int64_t count, const float* weights, float* mixed,
                          int64_t mixed_stride) {
  const int64_t groups = values.groups(static_cast<int64_t>(hn::Lanes(d)));
  int64_t group = 0;
  if constexpr (Rows::kSinglePick) {
    for (; group + 4 <= groups; group += 4)
      mix_groups<D, kHeads, 4, 1>(d, values, group, 0, count, weights, mixed, mixed_stride);
    for (; group < groups; ++group)
      mix_groups<D, kHeads, 1, 1>(d, values, group, 0, count, weights, mixed, mixed_stride);
  } else if (values.picks() == 2) {
    for (; group + 2 <= groups; group += 2)
      mix_groups<D, kHeads, 2, 2>(d, values, group, 0, count, weights, mixed, mixed_stride);
    for (; group < groups; ++group)
      mix_groups<D, kHeads, 1, 2>(d, values, group, 0, count, weights, mixed, mixed_stride);
  } else {
    for (; group < groups; ++group) {
      for (int64_t pick = 0; pick < values.picks(); pick += 4)
        mix_groups<D, kHeads, 1, 4>(d, values, group, pick, count, weights, mixed, mixed_stride);
    }
  }
}

HWY_INLINE float sum_of(const float* values, int64_t count) {
  const FloatTag d;
  FloatVec sum = hn::Zero(d);
  for (int64_t i = 0; i < count; i += kLanes) sum = hn::Add(sum, load_part(d, values + i, count - i));
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

/// Weighted sums of slots of a packed run.
template <int kHeads>
HWY_NOINLINE void mix_codes(const PackedRows& rows, int64_t slot, int64_t count, const float* weights, int64_t dim,
                            float* mixed, int64_t mixed_stride) {
  if (rows.by_token()) return mix_codes_by_token<kHeads>(rows, slot, count, weights, dim, mixed, mixed_stride);
  with_code_lanes(rows.values.row_bytes, [&](auto d) HWY_ATTR {
    const CodeOrder order(rows.values, static_cast<int64_t>(hn::Lanes(d)));
    HWY_ALIGN float sums[kHeads * kMaxHeadDim];
    const int64_t positions = order.position(order.groups, 0);
    for (int h = 0; h < kHeads; ++h) std::fill_n(sums + h * kMaxHeadDim, positions, 0.0f);
    const uint8_t* first = rows.values.row(slot);
    if (rows.values.bits == 8)
      mix_slots<decltype(d), kHeads>(d, CodeRows<true>{first, rows.values.row_bytes, &order}, count, weights, sums,
                                     kMaxHeadDim);
    else
      mix_slots<decltype(d), kHeads>(d, CodeRows<false>{first, rows.values.row_bytes, &order}, count, weights, sums,
                                     kMaxHeadDim);
    for (int h = 0; h < kHeads; ++h) {
      unfold_values(order, rows, sums + h * kMaxHeadDim, sum_of(weights + h * kAttendScoreRow, count), dim,
                    mixed + h * mixed_stride);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#endif  // OCELLUS_KERNELS_ATTEND_ONE_INL_H
