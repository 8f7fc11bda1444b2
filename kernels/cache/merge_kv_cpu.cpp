#include "kernels/backends.h"
#include "kernels/base/row_pieces.h"
#include "kernels/cache/merge_kv.h"
#include "quant/weight_format.h"

namespace ocellus {
namespace {

/// Writes the mean of rows of one head over one of them, from a channel on.
void merge_rows(const KvLayerRows& rows, Half* data, int64_t head, const merge::Bucket& bucket, int32_t first_channel) {
  const auto count = static_cast<float>(bucket.end - bucket.first);
  for (int32_t e = first_channel; e < rows.head_dim; ++e) {
    float sum = 0;
    for (int64_t row = bucket.first; row < bucket.end; ++row) sum += half_to_float(data[rows.at(row, head) + e]);
    data[rows.at(bucket.anchor, head) + e] = float_to_half(sum / count);
  }
}

/// The same for keys before their rotation; the mean is rotated like the row that it replaces.
void merge_unrotated(const MergeKvArgs& args, int64_t head, const merge::Bucket& bucket) {
  const KvLayerRows& rows = args.rows;
  const auto count = static_cast<float>(bucket.end - bucket.first);
  Half* const anchor = rows.keys + rows.at(bucket.anchor, head);
  for (int32_t pair = 0; pair < args.rope.rotated / 2; ++pair) {
    const ChannelPair at = ChannelPair::of(args.rope, pair);
    float first = 0, second = 0;
    for (int64_t row = bucket.first; row < bucket.end; ++row) {
      const Half* key = rows.keys + rows.at(row, head);
      const float a = half_to_float(key[at.first]), b = half_to_float(key[at.second]);
      const float cosine = args.angles.row(row)[2 * pair], sine = args.angles.row(row)[2 * pair + 1];
      first += a * cosine + b * sine;
      second += b * cosine - a * sine;
    }
    const float* turn = args.angles.row(bucket.anchor) + int64_t{2} * pair;
    anchor[at.first] = float_to_half((first * turn[0] - second * turn[1]) / count);
    anchor[at.second] = float_to_half((first * turn[1] + second * turn[0]) / count);
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
                     const bool unrotated = args.angles.data != nullptr;
                     if (unrotated) merge_unrotated(args, head, bucket);
                     merge_rows(rows, rows.keys, head, bucket, unrotated ? args.rope.rotated : 0);
                     merge_rows(rows, rows.values, head, bucket, 0);
                   }
                 });
}

}  // namespace ocellus
