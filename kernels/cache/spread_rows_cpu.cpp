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

float angle_distance(const float* a, const float* b, int64_t count) {
  const FloatTag d;
  FloatVec ab = hn::Zero(d), aa = hn::Zero(d), bb = hn::Zero(d);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const FloatVec x = hn::LoadU(d, a + i), y = hn::LoadU(d, b + i);
    ab = hn::MulAdd(x, y, ab);
    aa = hn::MulAdd(x, x, aa);
    bb = hn::MulAdd(y, y, bb);
  }
  float rest[3] = {};
  for (; i < count; ++i) {
    rest[0] += a[i] * b[i];
    rest[1] += a[i] * a[i];
    rest[2] += b[i] * b[i];
  }
  return spread::angle_distance(hn::GetLane(hn::SumOfLanes(d, ab)) + rest[0],
                                hn::GetLane(hn::SumOfLanes(d, aa)) + rest[1],
                                hn::GetLane(hn::SumOfLanes(d, bb)) + rest[2]);
}

float distance_of(const SpreadRowsArgs& args, const float* a, const float* b) {
  return args.by == SpreadBy::kAngle ? angle_distance(a, b, args.rows.cols) : squared_distance(a, b, args.rows.cols);
}

/// least[t] = the distance of row t to the nearest other candidate, for rows [begin, end).
void isolate(const SpreadRowsArgs& args, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    if (args.ids[t] != kSkippedRow) continue;
    float least = spread::kFar;
    for (int64_t u = 0; u < args.rows.rows; ++u) {
      if (u == t || args.ids[u] != kSkippedRow) continue;
      const float distance = distance_of(args, args.rows.row(t), args.rows.row(u));
      if (distance < least) least = distance;
    }
    args.least[t] = least;
  }
}

/// least[t] = min(least[t], distance of row t to `to`), or without `keep` just that distance, for rows [begin, end).
void approach(const SpreadRowsArgs& args, const float* to, bool keep, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    if (args.ids[t] != kSkippedRow) continue;
    const float distance = distance_of(args, args.rows.row(t), to);
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
HWY_EXPORT(isolate);

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
  const bool is_by_place = args.by == SpreadBy::kPlace;
  if (is_by_place) {
    find_mean(args);
    measure(args.mean, false);
  } else {
    queue.parallel(args.rows.rows, 1, [&](int64_t begin, int64_t end, int) {
      HWY_DYNAMIC_DISPATCH(isolate)(args, begin, end);
    });
  }
  int64_t row = find_end(args, is_by_place);
  for (int32_t k = 0; k < args.count && row >= 0; ++k) {
    args.picks[k] = static_cast<int32_t>(row);
    measure(args.rows.row(row), k > 0);
    for (int32_t i = 0; i <= k; ++i) args.least[args.picks[i]] = spread::kChosen;
    row = find_end(args, false);
  }
}

}  // namespace ocellus
#endif  // HWY_ONCE
