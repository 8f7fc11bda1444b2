#pragma once

#include "kernels/cache/merge_kv.h"

namespace ocellus {

/// Change of a kept row k by the m dropped rows e that join it (LOOK-M, section 3.3):
///   average   (k + sum of e) / (1 + m)
///   pivot     (k + sum of (e + k) / 2) / (1 + m)
enum class SimilarMerge : uint8_t { kAverage, kPivot };

/// Merges dropped rows into kept ones, in place, as LOOK-M does: of rows 0 .. row_count - 1 each that is not kept
/// joins, head by head, the kept row with the most similar key (greatest cosine; the first of equal ones in the order
/// of kept rows, the first list's before the second's), and keys and values of kept rows change alike.
///
/// Shapes      rows, kept rows and counts as for merge_kv; targets [G, >= row_count] is written: the index of the kept
///             row that a row joins, or -1 if it is kept itself or has no number
/// Types       f16; products, sums and norms in f32
/// Divisible   E by 8, E <= kMaxHeadDim
/// Kept        at most most_kept rows a head; a head that keeps none stays unchanged
/// Errors      kUnsupported in the queue for longer heads
/// Special     a key that is NaN or has length zero joins nothing
struct MergeSimilarArgs {
  MergeKvArgs kept = {};  // `first` and `end` are not read
  int64_t row_count = 0;
  SimilarMerge how = SimilarMerge::kPivot;
  DeviceView<int32_t> targets = {};
};
void merge_similar_kv(const MergeSimilarArgs& args, Queue& queue);

namespace merge {

/// True if a head keeps the row.
OCELLUS_EVERYWHERE inline bool keeps(const KeptRows& kept, int32_t row) {
  for (int list = 0; list < 2; ++list) {
    const int32_t at = kept.below(list, row);
    if (at < kept.counts[list] && kept.lists[list][at] == row) return true;
  }
  return false;
}
/// The head's i-th kept row; the first list's rows come before the second's.
OCELLUS_EVERYWHERE inline int32_t kept_row(const KeptRows& kept, int32_t i) {
  return i < kept.counts[0] ? kept.lists[0][i] : kept.lists[1][i - kept.counts[0]];
}

/// Returns a channel of a kept row from its old value, the sum of the `count` rows that joined it, and the merge.
OCELLUS_EVERYWHERE inline float merged(SimilarMerge how, float own, float sum, float count) {
  const float joined = how == SimilarMerge::kAverage ? sum : 0.5f * (sum + count * own);
  return (own + joined) / (1 + count);
}

}  // namespace merge
}  // namespace ocellus
