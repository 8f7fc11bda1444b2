#include <cmath>
#include <limits>

#include "kernels/backends.h"
#include "kernels/base/highway_targets.h"
#include "kernels/rows/merge_similar_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rows/merge_similar_rows_cpu.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/base/dot-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace {

/// The length of a row's own key is the same for all targets, so that it is left out of the cosines.
int32_t nearest_target(const MergeRowsArgs& args, int64_t row) {
  const float* const key = args.keys.row(row);
  if (!(dot(key, key, args.keys.cols) > 0)) return kJoinsNone;
  float best = -std::numeric_limits<float>::infinity();
  int32_t nearest = kJoinsNone;
  for (int64_t i = 0; i < args.count; ++i) {
    const float* const other = args.keys.row(args.targets[i]);
    const float square = dot(other, other, args.keys.cols);
    const float likeness = square == 0 ? 0.0f : dot(key, other, args.keys.cols) / std::sqrt(square);
    if (!(likeness > best)) continue;
    best = likeness;
    nearest = args.targets[i];
  }
  return nearest;
}

void join_nearest(const MergeRowsArgs& args, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row)
    if (args.joined[row] == kJoinsNearest) args.joined[row] = nearest_target(args, row);
}

void average_joined(const MergeRowsArgs& args, int64_t begin, int64_t end) {
  const FloatTag d;
  const int64_t cols = args.rows.cols;
  for (int64_t i = begin; i < end; ++i) {
    float* const sum = args.rows.row(args.targets[i]);
    float count = 1;
    for (int64_t row = 0; row < args.rows.rows; ++row) {
      if (args.joined[row] != args.targets[i]) continue;
      const float* const other = args.rows.row(row);
      for (int64_t col = 0; col < cols; col += kLanes)
        store_part(hn::Add(load_part(d, sum + col, cols - col), load_part(d, other + col, cols - col)), d, sum + col,
                   cols - col);
      ++count;
    }
    for (int64_t col = 0; col < cols; ++col) sum[col] /= count;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ocellus {

HWY_EXPORT(join_nearest);
HWY_EXPORT(average_joined);

void cpu::merge_similar_rows(const MergeRowsArgs& args, Queue& queue) {
  if (args.count == 0) return;
  queue.parallel(args.rows.rows, 16, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(join_nearest)(args, begin, end);
  });
  queue.parallel(args.count, 1, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(average_joined)(args, begin, end);
  });
}

}  // namespace ocellus
#endif  // HWY_ONCE
