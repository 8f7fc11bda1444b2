#include "kernels/backends.h"
#include "kernels/base/device_math.cuh"
#include "kernels/base/launch.cuh"
#include "kernels/rows/merge_similar_rows.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kThreads = 128;

__device__ float product(const float* a, const float* b, int64_t count, int lane) {
  float sum = 0;
  for (int64_t i = lane; i < count; i += kWarp) sum = fmaf(a[i], b[i], sum);
  return warp_sum(sum);
}

/// One warp per row. As nearest_target() of the CPU.
__global__ void join_nearest(const __grid_constant__ MergeRowsArgs args) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t row = (int64_t{blockIdx.x} * kThreads + threadIdx.x) / kWarp, cols = args.keys.cols;
  wait_for_inputs();
  let_next_start();
  if (row >= args.rows.rows || args.joined[row] != kJoinsNearest) return;  // a whole warp
  const float* const key = args.keys.data + row * args.keys.stride;
  float best = -INFINITY;
  int32_t nearest = kJoinsNone;
  const bool has_key = product(key, key, cols, lane) > 0;
  for (int64_t i = 0; has_key && i < args.count; ++i) {
    const float* const other = args.keys.data + args.targets[i] * args.keys.stride;
    const float square = product(other, other, cols, lane);
    const float likeness = square == 0 ? 0.0f : product(key, other, cols, lane) / sqrtf(square);
    if (!(likeness > best)) continue;
    best = likeness;
    nearest = args.targets[i];
  }
  __syncwarp();  // all lanes have read the mark
  if (lane == 0) args.joined[row] = nearest;
}

/// One thread per target and column. No target joins another, so that no thread writes what another reads.
__global__ void average_joined(const __grid_constant__ MergeRowsArgs args) {
  const int64_t col = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  wait_for_inputs();
  let_next_start();
  if (col >= args.rows.cols) return;
  const int32_t target = args.targets[blockIdx.x];
  float* const column = args.rows.data + col;
  float sum = column[target * args.rows.stride], count = 1;
  for (int64_t row = 0; row < args.rows.rows; ++row) {
    if (args.joined[row] != target) continue;
    sum += column[row * args.rows.stride];
    ++count;
  }
  column[target * args.rows.stride] = sum / count;
}

}  // namespace

void merge_similar_rows(const MergeRowsArgs& args, Queue& queue) {
  if (args.count == 0) return;
  const int64_t blocks = divide_up(args.rows.rows * kWarp, kThreads);
  launch<join_nearest>(queue, "merge_similar_rows", {.grid = static_cast<unsigned>(blocks), .threads = kThreads}, args);
  const dim3 grid(static_cast<unsigned>(args.count), static_cast<unsigned>(divide_up(args.rows.cols, kThreads)));
  launch<average_joined>(queue, "merge_similar_rows", {.grid = grid, .threads = kThreads}, args);
}

}  // namespace cuda
}  // namespace ocellus
