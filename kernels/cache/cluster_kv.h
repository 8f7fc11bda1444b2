#pragma once

#include "kernels/cache/merge_kv.h"

namespace ocellus {

/// Lists the rows where clusters of dropped rows begin: of those that a head drops, in their order, every m / C-th (all
/// if there are fewer). Their scores become infinite, so that a selection of C more rows keeps them besides the others.
///
/// Shapes   kept rows and counts as for merge_kv; seeds [G, C], ascending, -1 after the last; scores [G, >= row_count]
struct SeedClustersArgs {
  MergeKvArgs kept = {};  // `rows`, `first` and `end` are not read
  int64_t row_count = 0;
  DeviceView<int32_t> seeds = {};
  DeviceView<float> scores = {};
};
void seed_clusters(const SeedClustersArgs& args, Queue& queue);

/// Clusters dropped rows by their keys, head by head, in place (Elastic Cache, table 3 b): k-means with C centres,
/// Lloyd's algorithm of kClusterRounds rounds from the keys of the seeds. Each seed's key and value become the means of
/// its cluster. The rows: those among 0 .. row_count - 1 that are not kept, and the seeds, which are.
///
/// Shapes      kept rows and counts as for merge_kv; seeds [G, C]; scratch: clusters [G, >= row_count] receives the
///             cluster of a row in the last round, -1 if it has none; centres [G, >= C * (2 * E + 1)]
/// Types       f16; distances (squared, Euclidean), sums and means in f32, added from the lowest row on
/// Special     of equal distances the first cluster; a key that is NaN is in no cluster; an empty cluster keeps its
///             centre, and if it is empty in the last round its seed stays unchanged
struct ClusterKvArgs {
  MergeKvArgs kept = {};  // `first` and `end` are not read
  int64_t row_count = 0;
  DeviceView<const int32_t> seeds = {};
  DeviceView<int32_t> clusters = {};
  DeviceView<float> centres = {};
};
void cluster_kv(const ClusterKvArgs& args, Queue& queue);

inline constexpr int32_t kClusterRounds = 10;

namespace merge {

/// Number of kept rows below `row`.
OCELLUS_EVERYWHERE inline int32_t kept_below(const KeptRows& kept, int32_t row) {
  return kept.below(0, row) + kept.below(1, row);
}

/// The row where a head's c-th cluster of `clusters` begins; -1 if it drops fewer.
OCELLUS_EVERYWHERE inline int32_t seed_of(const KeptRows& kept, int64_t row_count, int64_t c, int64_t clusters) {
  const int64_t dropped = row_count - kept.count(), most = clusters < dropped ? clusters : dropped;
  if (c >= most) return -1;
  const int64_t wanted = (2 * c + 1) * dropped / (2 * most);  // as many dropped rows come before it
  auto low = static_cast<int32_t>(wanted), high = static_cast<int32_t>(row_count - 1);
  while (low < high) {  // the first row up to which more are dropped
    const int32_t middle = low + (high - low) / 2;
    if (middle + 1 - kept_below(kept, middle + 1) > wanted)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/// True if a row belongs to the rows of which clusters are made.
OCELLUS_EVERYWHERE inline bool is_clustered(const KeptRows& kept, const int32_t* seeds, int64_t clusters, int32_t row) {
  const int32_t below = kept_below(kept, row);
  if (kept_below(kept, row + 1) == below) return true;
  for (int64_t c = 0; c < clusters; ++c)
    if (seeds[c] == row) return true;
  return false;
}

}  // namespace merge
}  // namespace ocellus
