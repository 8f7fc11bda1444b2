#include <cmath>

#include "kernels/backends.h"
#include "kernels/base/row_pieces.h"
#include "kernels/cache/merge_similar_kv.h"
#include "quant/weight_format.h"

namespace ocellus {
namespace {

float dot(const Half* a, const Half* b, int32_t count) {
  float sum = 0;
  for (int32_t i = 0; i < count; ++i) sum += half_to_float(a[i]) * half_to_float(b[i]);
  return sum;
}

/// Returns the index of the kept row that is most similar to a dropped one; -1 if there is none.
int32_t most_similar(const KvLayerRows& rows, const merge::KeptRows& kept, int64_t head, int32_t row) {
  const Half* key = rows.keys + rows.at(row, head);
  if (!(dot(key, key, rows.head_dim) > 0)) return -1;
  int32_t best = -1;
  float best_cosine = 0;
  for (int32_t i = 0, count = kept.count(); i < count; ++i) {
    const Half* other = rows.keys + rows.at(merge::kept_row(kept, i), head);
    const float cosine = dot(key, other, rows.head_dim) / std::sqrt(dot(other, other, rows.head_dim));
    if (cosine == cosine && (best < 0 || cosine > best_cosine)) {
      best = i;
      best_cosine = cosine;
    }
  }
  return best;
}

void merge_into(const MergeSimilarArgs& args, Half* data, int64_t head, int32_t index, int32_t row) {
  const KvLayerRows& rows = args.kept.rows;
  const int32_t* targets = args.targets.row(head);
  float sums[kMaxHeadDim] = {}, count = 0;
  for (int64_t from = 0; from < args.row_count; ++from) {
    if (targets[from] != index) continue;
    const Half* joining = data + rows.at(from, head);
    for (int32_t e = 0; e < rows.head_dim; ++e) sums[e] += half_to_float(joining[e]);
    ++count;
  }
  if (count == 0) return;
  Half* own = data + rows.at(row, head);
  for (int32_t e = 0; e < rows.head_dim; ++e)
    own[e] = float_to_half(merge::merged(args.how, half_to_float(own[e]), sums[e], count));
}

}  // namespace

void cpu::merge_similar_kv(const MergeSimilarArgs& args, Queue& queue) {
  const KvLayerRows& rows = args.kept.rows;
  const int64_t most = args.kept.most_kept;
  if (rows.head_dim > kMaxHeadDim)
    return queue.fail(
        OCELLUS_FAIL(Code::kUnsupported, "merge_similar_kv has no kernel for heads of %d values", rows.head_dim));
  queue.parallel(args.row_count * rows.heads, rows_per_piece(most * rows.head_dim, 16384),
                 [&](int64_t begin, int64_t end, int) {
                   for (int64_t task = begin; task < end; ++task) {
                     const int64_t head = task / args.row_count;
                     const auto row = static_cast<int32_t>(task % args.row_count);
                     const merge::KeptRows kept = merge::KeptRows::of(args.kept, head);
                     args.targets.row(head)[row] = merge::keeps(kept, row) ? -1 : most_similar(rows, kept, head, row);
                   }
                 });
  queue.parallel(most * rows.heads, rows_per_piece(args.row_count, 16384), [&](int64_t begin, int64_t end, int) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t head = task / most;
      const auto index = static_cast<int32_t>(task % most);
      const merge::KeptRows kept = merge::KeptRows::of(args.kept, head);
      if (index >= kept.count()) continue;
      const int32_t row = merge::kept_row(kept, index);
      merge_into(args, rows.keys, head, index, row);
      merge_into(args, rows.values, head, index, row);
    }
  });
}

}  // namespace ocellus
