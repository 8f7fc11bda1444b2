#include <algorithm>
#include <limits>

#include "kernels/backends.h"
#include "kernels/cache/cluster_kv.h"
#include "quant/weight_format.h"

namespace ocellus {
namespace {

/// K-means of one head.
class HeadClusters {
 public:
  HeadClusters(const ClusterKvArgs& args, int64_t head)
      : rows_(args.kept.rows),
        kept_(merge::KeptRows::of(args.kept, head)),
        head_(head),
        row_count_(static_cast<int32_t>(args.row_count)),
        count_(static_cast<int32_t>(args.seeds.cols)),
        seeds_(args.seeds.row(head)),
        clusters_(args.clusters.row(head)),
        centres_(args.centres.row(head)),
        sums_(centres_ + int64_t{count_} * rows_.head_dim),
        sizes_(sums_ + int64_t{count_} * rows_.head_dim) {}

  void run() {
    for (int32_t row = 0; row < row_count_; ++row)
      clusters_[row] = merge::is_clustered(kept_, seeds_, count_, row) ? 0 : -1;
    for (int32_t c = 0; c < count_ && seeds_[c] >= 0; ++c)
      for (int32_t e = 0; e < rows_.head_dim; ++e) centre(c)[e] = half_to_float(values_of(rows_.keys, seeds_[c])[e]);
    for (int32_t round = 0; round < kClusterRounds; ++round) {
      for (int32_t row = 0; row < row_count_; ++row)
        if (clusters_[row] >= 0) clusters_[row] = nearest(row);
      add_up(rows_.keys);
      for (int32_t c = 0; c < count_; ++c)
        if (sizes_[c] > 0) std::copy_n(sum(c), rows_.head_dim, centre(c));
    }
    add_up(rows_.values);
    for (int32_t c = 0; c < count_; ++c)
      if (sizes_[c] > 0) write(c);
  }

 private:
  Half* values_of(Half* data, int32_t row) const { return data + rows_.at(row, head_); }
  float* centre(int32_t c) const { return centres_ + int64_t{c} * rows_.head_dim; }
  float* sum(int32_t c) const { return sums_ + int64_t{c} * rows_.head_dim; }

  int32_t nearest(int32_t row) const {
    const Half* const key = values_of(rows_.keys, row);
    int32_t best = -1;
    float least = 0;
    for (int32_t c = 0; c < count_ && seeds_[c] >= 0; ++c) {
      float distance = 0;
      for (int32_t e = 0; e < rows_.head_dim; ++e) {
        const float apart = half_to_float(key[e]) - centre(c)[e];
        distance += apart * apart;
      }
      if (distance == distance && (best < 0 || distance < least)) {
        best = c;
        least = distance;
      }
    }
    return best;
  }

  /// Computes the means and sizes of all clusters.
  void add_up(Half* data) const {
    std::fill_n(sums_, int64_t{count_} * rows_.head_dim, 0.0f);
    std::fill_n(sizes_, count_, 0.0f);
    for (int32_t row = 0; row < row_count_; ++row) {
      const int32_t c = clusters_[row];
      if (c < 0) continue;
      const Half* const from = values_of(data, row);
      for (int32_t e = 0; e < rows_.head_dim; ++e) sum(c)[e] += half_to_float(from[e]);
      ++sizes_[c];
    }
    for (int32_t c = 0; c < count_; ++c)
      for (int32_t e = 0; sizes_[c] > 0 && e < rows_.head_dim; ++e) sum(c)[e] /= sizes_[c];
  }

  void write(int32_t c) const {
    for (int32_t e = 0; e < rows_.head_dim; ++e) {
      values_of(rows_.keys, seeds_[c])[e] = float_to_half(centre(c)[e]);
      values_of(rows_.values, seeds_[c])[e] = float_to_half(sum(c)[e]);
    }
  }

  const KvLayerRows& rows_;
  const merge::KeptRows kept_;
  const int64_t head_;
  const int32_t row_count_, count_;
  const int32_t* const seeds_;
  int32_t* const clusters_;
  float *const centres_, *const sums_, *const sizes_;
};

}  // namespace

void cpu::seed_clusters(const SeedClustersArgs& args, Queue& queue) {
  queue.parallel(args.seeds.rows, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t head = begin; head < end; ++head) {
      const merge::KeptRows kept = merge::KeptRows::of(args.kept, head);
      for (int64_t c = 0; c < args.seeds.cols; ++c) {
        const int32_t seed = merge::seed_of(kept, args.row_count, c, args.seeds.cols);
        args.seeds.row(head)[c] = seed;
        if (seed >= 0) args.scores.row(head)[seed] = std::numeric_limits<float>::infinity();
      }
    }
  });
}

void cpu::cluster_kv(const ClusterKvArgs& args, Queue& queue) {
  queue.parallel(args.kept.rows.heads, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t head = begin; head < end; ++head) HeadClusters(args, head).run();
  });
}

}  // namespace ocellus
