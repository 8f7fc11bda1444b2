#include "kernels/backends.h"
#include "kernels/base/device_math.cuh"
#include "kernels/base/launch.cuh"
#include "kernels/cache/cluster_kv.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;

__global__ void find_seeds(const __grid_constant__ SeedClustersArgs args) {
  const int64_t clusters = args.seeds.cols, head = blockIdx.x;
  wait_for_inputs();
  let_next_start();
  const merge::KeptRows kept = merge::KeptRows::of(args.kept, head);
  for (int64_t c = threadIdx.x; c < clusters; c += blockDim.x) {
    const int32_t seed = merge::seed_of(kept, args.row_count, c, clusters);
    args.seeds.data[head * args.seeds.stride + c] = seed;
    if (seed >= 0) args.scores.data[head * args.scores.stride + seed] = INFINITY;
  }
}

/// One head, as a block of threads sees it.
struct Head {
  KvLayerRows rows;
  int64_t head;
  int row_count, count;
  const int32_t* seeds;
  int32_t* clusters;
  float *centres, *sums, *sizes;

  __device__ const __half* key(int row) const {
    return reinterpret_cast<const __half*>(rows.keys) + rows.at(row, head);
  }
};

/// A warp finds the cluster of a row, and returns it in every lane.
__device__ int nearest(const Head& h, int row, int lane) {
  int best = -1;
  float least = 0;
  for (int c = 0; c < h.count && h.seeds[c] >= 0; ++c) {
    float distance = 0;
    for (int e = lane; e < h.rows.head_dim; e += kWarp) {
      const float apart = __half2float(h.key(row)[e]) - h.centres[c * h.rows.head_dim + e];
      distance += apart * apart;
    }
    distance = warp_sum(distance);
    if (distance == distance && (best < 0 || distance < least)) {
      best = c;
      least = distance;
    }
  }
  return best;
}

/// Computes the means and sizes of all clusters: a thread adds a channel of all rows, in their order.
__device__ void add_up(const Head& h, const Half* data) {
  const __half* const halves = reinterpret_cast<const __half*>(data);
  const int dim = h.rows.head_dim;
  for (int c = static_cast<int>(threadIdx.x); c < h.count; c += kThreads) {
    int size = 0;
    for (int row = 0; row < h.row_count; ++row) size += h.clusters[row] == c ? 1 : 0;
    h.sizes[c] = static_cast<float>(size);
  }
  __syncthreads();
  for (int e = static_cast<int>(threadIdx.x); e < dim; e += kThreads) {
    for (int c = 0; c < h.count; ++c) h.sums[c * dim + e] = 0;
    for (int row = 0; row < h.row_count; ++row) {
      const int c = h.clusters[row];
      if (c >= 0) h.sums[c * dim + e] += __half2float(halves[h.rows.at(row, h.head) + e]);
    }
    for (int c = 0; c < h.count; ++c)
      if (h.sizes[c] > 0) h.sums[c * dim + e] /= h.sizes[c];
  }
  __syncthreads();
}

/// A block clusters the rows of one head.
__global__ void __launch_bounds__(kThreads) cluster(const __grid_constant__ ClusterKvArgs args) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t head = blockIdx.x;
  const int dim = args.kept.rows.head_dim, count = static_cast<int>(args.seeds.cols);
  wait_for_inputs();
  let_next_start();
  const merge::KeptRows kept = merge::KeptRows::of(args.kept, head);
  float* const centres = args.centres.data + head * args.centres.stride;
  const Head h{.rows = args.kept.rows,
               .head = head,
               .row_count = static_cast<int>(args.row_count),
               .count = count,
               .seeds = args.seeds.data + head * args.seeds.stride,
               .clusters = args.clusters.data + head * args.clusters.stride,
               .centres = centres,
               .sums = centres + count * dim,
               .sizes = centres + 2 * count * dim};
  for (int row = static_cast<int>(threadIdx.x); row < h.row_count; row += kThreads)
    h.clusters[row] = merge::is_clustered(kept, h.seeds, count, row) ? 0 : -1;
  for (int i = static_cast<int>(threadIdx.x); i < count * dim; i += kThreads)
    if (h.seeds[i / dim] >= 0) h.centres[i] = __half2float(h.key(h.seeds[i / dim])[i % dim]);
  __syncthreads();
  for (int round = 0; round < kClusterRounds; ++round) {
    for (int row = warp; row < h.row_count; row += kWarps) {
      if (h.clusters[row] < 0) continue;
      const int c = nearest(h, row, lane);
      __syncwarp();  // all lanes have read the last one
      if (lane == 0) h.clusters[row] = c;
    }
    __syncthreads();
    add_up(h, h.rows.keys);
    for (int i = static_cast<int>(threadIdx.x); i < count * dim; i += kThreads)
      if (h.sizes[i / dim] > 0) h.centres[i] = h.sums[i];
    __syncthreads();
  }
  add_up(h, h.rows.values);
  for (int i = static_cast<int>(threadIdx.x); i < count * dim; i += kThreads) {
    if (!(h.sizes[i / dim] > 0)) continue;
    const int64_t to = h.rows.at(h.seeds[i / dim], head) + i % dim;
    reinterpret_cast<__half*>(h.rows.keys)[to] = round_half(h.centres[i]);
    reinterpret_cast<__half*>(h.rows.values)[to] = round_half(h.sums[i]);
  }
}

}  // namespace

void seed_clusters(const SeedClustersArgs& args, Queue& queue) {
  launch<find_seeds>(queue, "seed_clusters", {.grid = static_cast<unsigned>(args.seeds.rows), .threads = kWarp}, args);
}

void cluster_kv(const ClusterKvArgs& args, Queue& queue) {
  launch<cluster>(queue, "cluster_kv", {.grid = static_cast<unsigned>(args.kept.rows.heads), .threads = kThreads},
                  args);
}

}  // namespace cuda
}  // namespace ocellus
