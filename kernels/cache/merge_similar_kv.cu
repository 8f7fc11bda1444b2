#include "kernels/backends.h"
#include "kernels/base/device_math.cuh"
#include "kernels/base/launch.cuh"
#include "kernels/cache/merge_similar_kv.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kMaxLaneValues = kMaxHeadDim / kWarp;

__device__ const __half* key_of(const KvLayerRows& rows, int64_t row, int64_t head) {
  return reinterpret_cast<const __half*>(rows.keys + rows.at(row, head));
}

/// A warp finds the kept row that is most similar to one dropped row of one head.
__global__ void __launch_bounds__(kThreads) find_targets(const __grid_constant__ MergeSimilarArgs args) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, head = static_cast<int>(blockIdx.y);
  const auto row = static_cast<int32_t>(blockIdx.x * kWarps + threadIdx.x / kWarp);
  const KvLayerRows& rows = args.kept.rows;
  wait_for_inputs();
  let_next_start();
  if (row >= args.row_count) return;
  const merge::KeptRows kept = merge::KeptRows::of(args.kept, head);
  int32_t* const target = args.targets.data + head * args.targets.stride + row;
  float own[kMaxLaneValues], squares = 0;
#pragma unroll
  for (int i = 0; i < kMaxLaneValues; ++i) {
    const int e = lane + i * kWarp;
    own[i] = e < rows.head_dim ? __half2float(key_of(rows, row, head)[e]) : 0.0f;
    squares += own[i] * own[i];
  }
  int32_t best = -1;
  float best_cosine = 0;
  const bool has_direction = warp_sum(squares) > 0, is_kept = merge::keeps(kept, row);
  for (int32_t k = 0, count = has_direction && !is_kept ? kept.count() : 0; k < count; ++k) {
    const __half* const other = key_of(rows, merge::kept_row(kept, k), head);
    float product = 0, length = 0;
#pragma unroll
    for (int i = 0; i < kMaxLaneValues; ++i) {
      const int e = lane + i * kWarp;
      const float value = e < rows.head_dim ? __half2float(other[e]) : 0.0f;
      product += own[i] * value;
      length += value * value;
    }
    const float cosine = warp_sum(product) / sqrtf(warp_sum(length));
    if (cosine == cosine && (best < 0 || cosine > best_cosine)) {
      best = k;
      best_cosine = cosine;
    }
  }
  if (lane == 0) *target = best;
}

/// A warp changes one kept row of one head, a lane the same channels of its key and value.
__global__ void __launch_bounds__(kThreads) merge_rows(const __grid_constant__ MergeSimilarArgs args) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, head = static_cast<int>(blockIdx.y);
  const auto index = static_cast<int32_t>(blockIdx.x * kWarps + threadIdx.x / kWarp);
  const KvLayerRows& rows = args.kept.rows;
  wait_for_inputs();
  let_next_start();
  const merge::KeptRows kept = merge::KeptRows::of(args.kept, head);
  if (index >= kept.count()) return;
  const int32_t* const targets = args.targets.data + head * args.targets.stride;
  __half* const keys = reinterpret_cast<__half*>(rows.keys);
  __half* const values = reinterpret_cast<__half*>(rows.values);
  float key[kMaxLaneValues] = {}, value[kMaxLaneValues] = {}, count = 0;
  for (int64_t from = 0; from < args.row_count; ++from) {
    if (targets[from] != index) continue;
    ++count;
#pragma unroll
    for (int i = 0; i < kMaxLaneValues; ++i) {
      const int e = lane + i * kWarp;
      if (e >= rows.head_dim) continue;
      key[i] += __half2float(keys[rows.at(from, head) + e]);
      value[i] += __half2float(values[rows.at(from, head) + e]);
    }
  }
  if (count == 0) return;
  const int64_t to = rows.at(merge::kept_row(kept, index), head);
#pragma unroll
  for (int i = 0; i < kMaxLaneValues; ++i) {
    const int e = lane + i * kWarp;
    if (e >= rows.head_dim) continue;
    keys[to + e] = round_half(merge::merged(args.how, __half2float(keys[to + e]), key[i], count));
    values[to + e] = round_half(merge::merged(args.how, __half2float(values[to + e]), value[i], count));
  }
}

unsigned blocks_for(int64_t warps) { return static_cast<unsigned>(divide_up(warps, kWarps)); }

}  // namespace

void merge_similar_kv(const MergeSimilarArgs& args, Queue& queue) {
  const KvLayerRows& rows = args.kept.rows;
  const auto heads = static_cast<unsigned>(rows.heads);
  if (rows.head_dim > kMaxLaneValues * kWarp)
    return queue.fail(
        OCELLUS_FAIL(Code::kUnsupported, "merge_similar_kv has no kernel for heads of %d values", rows.head_dim));
  if (args.row_count == 0 || args.kept.most_kept == 0) return;
  launch<find_targets>(queue, "merge_similar_kv",
                       {.grid = dim3(blocks_for(args.row_count), heads), .threads = kThreads}, args);
  launch<merge_rows>(queue, "merge_similar_kv",
                     {.grid = dim3(blocks_for(args.kept.most_kept), heads), .threads = kThreads}, args);
}

}  // namespace cuda
}  // namespace ocellus
