#pragma once

#include "kernels/base/kv_run.h"
#include "kernels/rows/rope.h"
#include "kernels/rows/store_kv.h"
#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// Merges dropped rows into kept ones, in place (Elastic Cache, eqs. 2, 3): of the rows first .. end - 1 each joins the
/// nearest kept row, the lower one of two equally near, and every kept row's key and value become the mean of those
/// that joined it, itself included. Rows outside stay unchanged, and no row joins a kept row outside. With angles keys
/// are averaged before their rotation: each is rotated back by the angles of its own row, and their mean is rotated by
/// those of the kept row (ours: rotated keys of distant rows attenuate each other).
///
/// Shapes      rows [G, capacity, E]; kept_text, kept_visual [G, >= counts] row numbers, ascending, no row twice;
///             counts [G]. kept_visual and visual_counts may be null. All in device memory
/// Types       f16; sums in f32, added from the lowest row on
/// Divisible   E by 8
/// Angles      [>= end, rotated], of the rows as `rotate` takes them; null: keys are averaged without unrotating. Used
///             with `rope`
/// Kept        at most most_kept rows a head; a head that keeps none of first .. end - 1 leaves its rows unchanged
struct MergeKvArgs {
  KvLayerRows rows = {};
  int64_t first = 0;
  int64_t end = 0;
  DeviceView<const int32_t> kept_text = {};
  DeviceView<const int32_t> kept_visual = {};
  const int32_t* text_counts = nullptr;
  const int32_t* visual_counts = nullptr;
  int64_t most_kept = 0;
  RopeParams rope = {};
  DeviceView<const float> angles = {};
};
void merge_kv(const MergeKvArgs& args, Queue& queue);

namespace merge {

/// The kept rows of one head: two ascending lists that have no row in common.
struct KeptRows {
  const int32_t* lists[2];
  int32_t counts[2];

  OCELLUS_EVERYWHERE static KeptRows of(const MergeKvArgs& args, int64_t head) {
    const bool split = args.visual_counts != nullptr;
    const int32_t* text = args.kept_text.data + head * args.kept_text.stride;
    const int32_t* visual = split ? args.kept_visual.data + head * args.kept_visual.stride : nullptr;
    return {{text, visual}, {args.text_counts[head], split ? args.visual_counts[head] : 0}};
  }
  OCELLUS_EVERYWHERE int32_t count() const { return counts[0] + counts[1]; }

  /// Number of entries of a list below `row`.
  OCELLUS_EVERYWHERE int32_t below(int list, int32_t row) const {
    int32_t low = 0, high = counts[list];
    while (low < high) {
      const int32_t middle = (low + high) / 2;
      if (lists[list][middle] < row)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
};

struct Bucket {
  int64_t anchor = 0;
  int64_t first = 0, end = 0;  // rows that join it; none: it stays unchanged
};

/// The bucket of the head's i-th kept row; the first list's rows come before the second's.
OCELLUS_EVERYWHERE inline Bucket bucket_of(const MergeKvArgs& args, const KeptRows& kept, int32_t i) {
  const int own = i < kept.counts[0] ? 0 : 1;
  const int32_t at = own == 0 ? i : i - kept.counts[0];
  const int32_t anchor = kept.lists[own][at];
  Bucket bucket{anchor, args.first, args.end};
  if (anchor < args.first || anchor >= args.end) return {anchor, 0, 0};
  const int32_t other = kept.below(1 - own, anchor);
  const auto follow = [&](int64_t before) {
    if (before >= args.first && (before + anchor) / 2 + 1 > bucket.first) bucket.first = (before + anchor) / 2 + 1;
  };
  const auto precede = [&](int64_t next) {
    if (next < args.end && (anchor + next) / 2 + 1 < bucket.end) bucket.end = (anchor + next) / 2 + 1;
  };
  if (at > 0) follow(kept.lists[own][at - 1]);
  if (other > 0) follow(kept.lists[1 - own][other - 1]);
  if (at + 1 < kept.counts[own]) precede(kept.lists[own][at + 1]);
  if (other < kept.counts[1 - own]) precede(kept.lists[1 - own][other]);
  return bucket;
}

}  // namespace merge
}  // namespace ocellus
