#include "kernels/backends.h"
#include "kernels/base/device_math.cuh"
#include "kernels/base/launch.cuh"
#include "kernels/cache/merge_kv.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kBucketsPerBlock = kThreads / kWarp;

/// The pair's two channels of the mean of unrotated keys, rotated like the anchor. Pairs of one lane.
__device__ void merge_pair(const MergeKvArgs& args, int64_t head, const merge::Bucket& bucket, int pair) {
  __half* const keys = reinterpret_cast<__half*>(args.rows.keys);
  const ChannelPair at = ChannelPair::of(args.rope, pair);
  const auto angles_of = [&](int64_t row) { return args.angles.data + row * args.angles.stride + 2 * pair; };
  float first = 0, second = 0;
  for (int64_t row = bucket.first; row < bucket.end; ++row) {
    const __half* key = keys + args.rows.at(row, head);
    const float a = __half2float(key[at.first]), b = __half2float(key[at.second]);
    const float cosine = angles_of(row)[0], sine = angles_of(row)[1];
    first += a * cosine + b * sine;
    second += b * cosine - a * sine;
  }
  const auto count = static_cast<float>(bucket.end - bucket.first);
  const float cosine = angles_of(bucket.anchor)[0], sine = angles_of(bucket.anchor)[1];
  __half* const anchor = keys + args.rows.at(bucket.anchor, head);
  anchor[at.first] = round_half((first * cosine - second * sine) / count);
  anchor[at.second] = round_half((first * sine + second * cosine) / count);
}

/// A warp merges one bucket of one head, a lane the same channels of its keys and values.
__global__ void merge_buckets(const __grid_constant__ MergeKvArgs args) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, head = static_cast<int>(blockIdx.y);
  const int i = static_cast<int>(blockIdx.x) * kBucketsPerBlock + static_cast<int>(threadIdx.x) / kWarp;
  wait_for_inputs();
  let_next_start();
  const merge::KeptRows kept = merge::KeptRows::of(args, head);
  if (i >= kept.count()) return;
  const merge::Bucket bucket = merge::bucket_of(args, kept, i);
  if (bucket.end - bucket.first < 2) return;
  __half* const keys = reinterpret_cast<__half*>(args.rows.keys);
  __half* const values = reinterpret_cast<__half*>(args.rows.values);
  const auto count = static_cast<float>(bucket.end - bucket.first);
  const int64_t to = args.rows.at(bucket.anchor, head);
  const int rotated = args.angles.data != nullptr ? args.rope.rotated : 0;  // channels that merge_pair writes
  for (int pair = lane; pair < rotated / 2; pair += kWarp) merge_pair(args, head, bucket, pair);
  for (int e = lane; e < args.rows.head_dim; e += kWarp) {
    float key = 0, value = 0;
    for (int64_t row = bucket.first; row < bucket.end; ++row) {
      const int64_t from = args.rows.at(row, head) + e;
      if (e >= rotated) key += __half2float(keys[from]);
      value += __half2float(values[from]);
    }
    if (e >= rotated) keys[to + e] = round_half(key / count);
    values[to + e] = round_half(value / count);
  }
}

}  // namespace

void merge_kv(const MergeKvArgs& args, Queue& queue) {
  if (args.most_kept == 0) return;
  const dim3 grid(static_cast<unsigned>(divide_up(args.most_kept, kBucketsPerBlock)),
                  static_cast<unsigned>(args.rows.heads));
  launch<merge_buckets>(queue, "merge_kv", {.grid = grid, .threads = kThreads}, args);
}

}  // namespace cuda
}  // namespace ocellus
