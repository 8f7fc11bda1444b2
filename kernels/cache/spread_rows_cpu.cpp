#include <algorithm>
#include <limits>

#include "kernels/backends.h"
#include "kernels/base/highway_targets.h"
#include "kernels/cache/spread_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cache/spread_rows_cpu.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/base/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace {

float squared_distance(const float* a, const float* b, int64_t count) {
  const FloatTag d;
  FloatVec sum = hn::Zero(d);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const FloatVec apart = hn::Sub(hn::LoadU(d, a + i), hn::LoadU(d, b + i));
    sum = hn::MulAdd(apart, apart, sum);
  }
  float rest = 0;
  for (; i < count; ++i) rest += (a[i] - b[i]) * (a[i] - b[i]);
  return hn::GetLane(hn::SumOfLanes(d, sum)) + rest;
}

/// least[t] = min(least[t], distance of row t to `to`), or without `keep` just that distance, for rows [begin, end).
void approach(const SpreadRowsArgs& args, const float* to, bool keep, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    if (args.ids[t] != kSkippedRow) continue;
    const float distance = squared_distance(args.rows.row(t), to, args.rows.cols);
    if (!keep || distance < args.least[t]) args.least[t] = distance;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ocellus {

HWY_EXPORT(approach);

namespace {

void find_mean(const SpreadRowsArgs& args) {
  int64_t count = 0;
  std::fill_n(args.mean, args.rows.cols, 0.0f);
  for (int64_t t = 0; t < args.rows.rows; ++t) {
    if (args.ids[t] != kSkippedRow) continue;
    ++count;
    for (int64_t i = 0; i < args.rows.cols; ++i) args.mean[i] += args.rows.row(t)[i];
  }
  for (int64_t i = 0; i < args.rows.cols; ++i) args.mean[i] /= static_cast<float>(count);
}

/// Returns the candidate of the minimum or maximum distance; one with a NaN distance if there is no other.
int64_t find_end(const SpreadRowsArgs& args, bool nearest) {
  int64_t best = -1;
  float at = 0;
  for (int64_t t = 0; t < args.rows.rows; ++t) {
    if (args.ids[t] != kSkippedRow || args.least[t] == spread::kChosen) continue;
    const float distance = args.least[t] >= 0 ? args.least[t]
                           : nearest          ? std::numeric_limits<float>::max()
                                              : spread::kNoNumber;
    if (best >= 0 && (nearest ? distance >= at : distance <= at)) continue;
    best = t;
    at = distance;
  }
  return best;
}

}  // namespace

void cpu::spread_rows(const SpreadRowsArgs& args, Queue& queue) {
  if (args.count == 0 || !queue.ok()) return;
  const auto measure = [&](const float* to, bool keep) {
    queue.parallel(args.rows.rows, 16, [&](int64_t begin, int64_t end, int) {
      HWY_DYNAMIC_DISPATCH(approach)(args, to, keep, begin, end);
    });
  };
  find_mean(args);
  measure(args.mean, false);
  int64_t row = find_end(args, true);
  for (int32_t k = 0; k < args.count && row >= 0; ++k) {
    args.picks[k] = static_cast<int32_t>(row);
    measure(args.rows.row(row), k > 0);
    for (int32_t i = 0; i <= k; ++i) args.least[args.picks[i]] = spread::kChosen;
    row = find_end(args, false);
  }
}

}  // namespace ocellus
#endif  // HWY_ONCE
