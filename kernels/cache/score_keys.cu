#include "kernels/backends.h"
#include "kernels/base/device_math.cuh"
#include "kernels/base/launch.cuh"
#include "kernels/cache/score_keys.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kParts = static_cast<int>(ScoreKeysArgs::kParts);
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;

__device__ const __half* key_at(const ScoreKeysArgs& args, int64_t head, int64_t row) {
  return reinterpret_cast<const __half*>(args.rows.keys + args.rows.at(row, head));
}

/// A block sums a part of a head's rows. Its warps take rows in turns, and their sums are added in order.
__global__ void __launch_bounds__(kThreads) sum_parts(const __grid_constant__ ScoreKeysArgs args) {
  extern __shared__ float sums[];  // [kWarps, E]
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const int dim = args.rows.head_dim;
  const int64_t head = blockIdx.x / kParts, part = blockIdx.x % kParts;
  float* const own = sums + warp * dim;
  for (int e = lane; e < dim; e += kWarp) own[e] = 0;
  wait_for_inputs();
  let_next_start();
  for (int64_t row = args.part_begin(part) + warp; row < args.part_begin(part + 1); row += kWarps) {
    const __half* const key = key_at(args, head, row);
    float squares = 0;
    for (int e = lane; e < dim; e += kWarp) squares = fmaf(__half2float(key[e]), __half2float(key[e]), squares);
    const float length = sqrtf(warp_sum(squares));
    for (int e = lane; length != 0 && e < dim; e += kWarp) own[e] += __half2float(key[e]) / length;
  }
  __syncthreads();
  for (int e = static_cast<int>(threadIdx.x); e < dim; e += kThreads) {
    float sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += sums[w * dim + e];
    args.anchors.data[int64_t{blockIdx.x} * args.anchors.stride + e] = sum;
  }
}

/// A block scores rows of a head, a warp one of them. Each block adds up the anchor's parts.
__global__ void __launch_bounds__(kThreads) score_by_anchor(const __grid_constant__ ScoreKeysArgs args) {
  extern __shared__ float anchor[];  // [E]
  const int lane = static_cast<int>(threadIdx.x) % kWarp, dim = args.rows.head_dim;
  const int64_t head = blockIdx.y, row = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
  wait_for_inputs();
  let_next_start();
  for (int e = static_cast<int>(threadIdx.x); e < dim; e += kThreads) {
    float sum = 0;
    for (int part = 0; part < kParts; ++part)
      sum += args.anchors.data[(head * kParts + part) * args.anchors.stride + e];
    anchor[e] = sum;
  }
  __syncthreads();
  if (row >= args.row_count) return;
  const __half* const key = key_at(args, head, row);
  float product = 0, of_key = 0, of_anchor = 0;
  for (int e = lane; e < dim; e += kWarp) {
    const float value = __half2float(key[e]);
    product = fmaf(value, anchor[e], product);
    of_key = fmaf(value, value, of_key);
    of_anchor = fmaf(anchor[e], anchor[e], of_anchor);
  }
  const float lengths = sqrtf(warp_sum(of_key)) * sqrtf(warp_sum(of_anchor));
  product = warp_sum(product);
  if (lane == 0) args.scores.data[head * args.scores.stride + row] = lengths == 0 ? 1.0f : 1 - product / lengths;
}

}  // namespace

void score_keys(const ScoreKeysArgs& args, Queue& queue) {
  if (args.row_count == 0) return;
  const auto heads = static_cast<unsigned>(args.scores.rows);
  const int bytes = args.rows.head_dim * static_cast<int>(sizeof(float));
  launch<sum_parts>(queue, "score_keys", {.grid = heads * kParts, .threads = kThreads, .shared_bytes = kWarps * bytes},
                    args);
  launch<score_by_anchor>(queue, "score_keys",
                          {.grid = dim3(static_cast<unsigned>(divide_up(args.row_count, kWarps)), heads),
                           .threads = kThreads,
                           .shared_bytes = bytes},
                          args);
}

}  // namespace cuda
}  // namespace ocellus
