// One block chooses all rows, one after the other: a warp measures a row at a time, and the block reduces to the
// extreme one.
#include "kernels/backends.h"
#include "kernels/base/best_row.cuh"
#include "kernels/base/launch.cuh"
#include "kernels/cache/spread_rows.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kThreads = kBestRowThreads;
constexpr int kWarps = kThreads / kWarp;

/// Every thread's sum of columns is in the order of the rows.
__device__ void find_mean(const SpreadRowsArgs& a) {
  int count = 0;
  for (int64_t t = 0; t < a.rows.rows; ++t) count += a.ids[t] == kSkippedRow ? 1 : 0;
  for (int64_t i = threadIdx.x; i < a.rows.cols; i += kThreads) {
    float sum = 0;
    for (int64_t t = 0; t < a.rows.rows; ++t)
      if (a.ids[t] == kSkippedRow) sum += a.rows.data[t * a.rows.stride + i];
    a.mean[i] = sum / static_cast<float>(count);
  }
}

/// The distance of a row to another, by one warp.
__device__ float measure_row(const SpreadRowsArgs& a, const float* row, const float* to, int lane) {
  float distance = 0;
  for (int64_t i = lane; i < a.rows.cols; i += kWarp) {
    const float apart = row[i] - to[i];
    distance = fmaf(apart, apart, distance);
  }
  return warp_sum(distance);
}

/// Implements approach() of the CPU; then returns the extreme row, in every thread. `chosen` (-1: none) is excluded
/// from now on.
__device__ int measure(const SpreadRowsArgs& a, const float* to, int chosen, bool keep, bool nearest,
                       RowScore* of_warps) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  RowScore best;
  for (int64_t t = warp; t < a.rows.rows; t += kWarps) {
    if (a.ids[t] != kSkippedRow) continue;
    const float before = a.least[t];
    const bool out = t == chosen || (keep && before == spread::kChosen);
    float distance = out ? 0 : measure_row(a, a.rows.data + t * a.rows.stride, to, lane);
    if (keep && !(distance < before)) distance = before;
    if (out) distance = spread::kChosen;
    __syncwarp();  // all lanes have read it
    if (lane == 0) a.least[t] = distance;
    if (out) continue;
    const float score = distance >= 0 ? distance : nearest ? spread::kFar : spread::kNoNumber;
    const RowScore mine{nearest ? -score : score, static_cast<int>(t)};
    if (mine.beats(best)) best = mine;
  }
  return best_of_block(best, of_warps).row;
}

__global__ void __launch_bounds__(kThreads) choose_rows(const __grid_constant__ SpreadRowsArgs a) {
  __shared__ RowScore of_warps[kWarps];
  wait_for_inputs();
  let_next_start();
  find_mean(a);
  __syncthreads();
  int row = measure(a, a.mean, -1, false, true, of_warps);
  for (int k = 0; k < a.count && row >= 0; ++k) {
    if (threadIdx.x == 0) a.picks[k] = row;
    row = measure(a, a.rows.data + row * a.rows.stride, row, k > 0, false, of_warps);
  }
}

}  // namespace

void spread_rows(const SpreadRowsArgs& args, Queue& queue) {
  if (args.count == 0) return;
  launch<choose_rows>(queue, "spread_rows", {.grid = 1, .threads = kThreads}, args);
}

}  // namespace cuda
}  // namespace ocellus
