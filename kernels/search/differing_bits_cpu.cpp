#include "kernels/base/highway_targets.h"
#include "kernels/search/differing_bits.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/search/differing_bits_cpu.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

void count_differing_bits(const DifferingBitsArgs& args) {
  const hn::CappedTag<uint64_t, kDifferingBitsWords> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t row = 0; row < args.rows.rows; ++row) {
    const uint64_t* words = args.rows.row(row);
    auto sum = hn::Zero(d);
    for (int64_t w = 0; w < args.rows.cols; w += lanes)
      sum = hn::Add(sum, hn::PopulationCount(hn::Xor(hn::LoadU(d, words + w), hn::LoadU(d, args.query + w))));
    args.distances[row] = static_cast<uint16_t>(hn::GetLane(hn::SumOfLanes(d, sum)));
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ocellus {

HWY_EXPORT(count_differing_bits);

void differing_bits(const DifferingBitsArgs& args) { HWY_DYNAMIC_DISPATCH(count_differing_bits)(args); }

}  // namespace ocellus
#endif  // HWY_ONCE
