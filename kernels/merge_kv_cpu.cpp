#include "kernels/backends.h"
#include "kernels/merge_kv.h"
#include "kernels/row_pieces.h"
#include "quant/weight_format.h"

namespace ocellus {
namespace {

/// The mean of rows of one head, written over one of them.
void merge_rows(const KvLayerRows& rows, Half* data, int64_t head, const merge::Bucket& bucket) {
  const auto count = static_cast<float>(bucket.end - bucket.first);
  for (int32_t e = 0; e < rows.head_dim; ++e) {
    float sum = 0;
    for (int64_t row = bucket.first; row < bucket.end; ++row) sum += half_to_float(data[rows.at(row, head) + e]);
    data[rows.at(bucket.anchor, head) + e] = float_to_half(sum / count);
  }
}

}  // namespace

void cpu::merge_kv(const MergeKvArgs& args, Queue& queue) {
  const KvLayerRows& rows = args.rows;
  const int64_t rows_each = args.most_kept > 0 ? (args.end - args.first) / args.most_kept + 1 : 1;
  queue.parallel(args.most_kept * rows.heads, rows_per_piece(rows_each * rows.head_dim, 8192),
                 [&](int64_t begin, int64_t end, int) {
                   for (int64_t task = begin; task < end; ++task) {
                     const int64_t head = task / args.most_kept;
                     const merge::KeptRows kept = merge::KeptRows::of(args, head);
                     const auto i = static_cast<int32_t>(task % args.most_kept);
                     if (i >= kept.count()) continue;
                     const merge::Bucket bucket = merge::bucket_of(args, kept, i);
                     if (bucket.end - bucket.first < 2) continue;
                     merge_rows(rows, rows.keys, head, bucket);
                     merge_rows(rows, rows.values, head, bucket);
                   }
                 });
}

}  // namespace ocellus
