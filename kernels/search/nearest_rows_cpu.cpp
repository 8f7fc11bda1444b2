#include <algorithm>

#include "kernels/base/highway_targets.h"
#include "kernels/search/nearest_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/search/nearest_rows_cpu.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using WideTag = hn::CappedTag<int16_t, 32>;
using SumTag = hn::RepartitionToWide<WideTag>;
using CodeTag = hn::Rebind<int8_t, WideTag>;

/// Sums of kRows rows with the query; rows share its loads.
template <int kRows>
HWY_INLINE void sum_rows(const HostView<const int8_t>& codes, int64_t row, const int16_t* query, int32_t* sums) {
  const WideTag wide;
  const SumTag d;
  const CodeTag code;
  constexpr int64_t kStep = static_cast<int64_t>(hn::MaxLanes(WideTag()));
  hn::Vec<SumTag> low[kRows], high[kRows];
  for (int r = 0; r < kRows; ++r) low[r] = high[r] = hn::Zero(d);
  for (int64_t w = 0; w < codes.cols; w += kStep) {
    const auto q = hn::LoadU(wide, query + w);
    for (int r = 0; r < kRows; ++r) {
      const auto c = hn::PromoteTo(wide, hn::LoadU(code, codes.row(row + r) + w));
      low[r] = hn::ReorderWidenMulAccumulate(d, c, q, low[r], high[r]);
    }
  }
  for (int r = 0; r < kRows; ++r) sums[r] = hn::GetLane(hn::SumOfLanes(d, hn::Add(low[r], high[r])));
}

void sum_code_rows(const HostView<const int8_t>& codes, int64_t begin, int64_t end, const int16_t* query,
                   int32_t* sums) {
  constexpr int kTile = 4;
  int64_t row = begin;
  for (; row + kTile <= end; row += kTile) sum_rows<kTile>(codes, row, query, sums + (row - begin));
  for (; row < end; ++row) sum_rows<1>(codes, row, query, sums + (row - begin));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ocellus {

HWY_EXPORT(sum_code_rows);

void nearest_rows(const NearestRowsArgs& args) {
  constexpr int64_t kPiece = 256;
  int32_t sums[kPiece];
  for (int64_t begin = 0; begin < args.codes.rows; begin += kPiece) {
    const int64_t end = std::min(begin + kPiece, args.codes.rows);
    HWY_DYNAMIC_DISPATCH(sum_code_rows)(args.codes, begin, end, args.query, sums);
    for (int64_t row = begin; row < end; ++row) {
      const NearRow near{args.first + row, args.steps[row] * static_cast<float>(sums[row - begin])};
      if (*args.count == args.capacity) {
        if (!(near < args.best[0])) continue;
        std::pop_heap(args.best, args.best + *args.count);
        --*args.count;
      }
      args.best[(*args.count)++] = near;
      std::push_heap(args.best, args.best + *args.count);
    }
  }
}

}  // namespace ocellus
#endif  // HWY_ONCE
