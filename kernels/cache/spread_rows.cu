// One block chooses all rows, one after the other: a warp measures a row at a time, and the block reduces to the
// extreme one.
#include "kernels/backends.h"
#include "kernels/base/device_math.cuh"
#include "kernels/base/launch.cuh"
#include "kernels/cache/spread_rows.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / kWarp;
static_assert(kWarps == kWarp, "one warp compares what all have found");

/// A row and its distance.
struct Candidate {
  float score;
  int row;  // -1: none
  __device__ bool beats(const Candidate& other) const {
    return row >= 0 && (other.row < 0 || score > other.score || (score == other.score && row < other.row));
  }
};

__device__ Candidate best_of_warp(Candidate mine) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    const Candidate other{__shfl_xor_sync(0xFFFFFFFFu, mine.score, offset),
                          __shfl_xor_sync(0xFFFFFFFFu, mine.row, offset)};
    if (other.beats(mine)) mine = other;
  }
  return mine;
}

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
  if (a.by == SpreadBy::kPlace) {
    float distance = 0;
    for (int64_t i = lane; i < a.rows.cols; i += kWarp) {
      const float apart = row[i] - to[i];
      distance = fmaf(apart, apart, distance);
    }
    return warp_sum(distance);
  }
  float ab = 0, aa = 0, bb = 0;
  for (int64_t i = lane; i < a.rows.cols; i += kWarp) {
    ab = fmaf(row[i], to[i], ab);
    aa = fmaf(row[i], row[i], aa);
    bb = fmaf(to[i], to[i], bb);
  }
  return spread::angle_distance(warp_sum(ab), warp_sum(aa), warp_sum(bb));
}

/// Returns the best of the candidates that the warps have found, in every thread.
__device__ int best_row(Candidate best, Candidate* of_warps) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  if (lane == 0) of_warps[warp] = best;
  __syncthreads();
  best = best_of_warp(of_warps[lane]);
  __syncthreads();  // before they are written again
  return best.row;
}

/// Returns the row whose nearest other row is farthest.
__device__ int find_loneliest(const SpreadRowsArgs& a, Candidate* of_warps) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  Candidate best{0, -1};
  for (int64_t t = warp; t < a.rows.rows; t += kWarps) {
    if (a.ids[t] != kSkippedRow) continue;
    float least = spread::kFar;
    for (int64_t u = 0; u < a.rows.rows; ++u) {
      if (u == t || a.ids[u] != kSkippedRow) continue;
      const float distance = measure_row(a, a.rows.data + t * a.rows.stride, a.rows.data + u * a.rows.stride, lane);
      if (distance < least) least = distance;
    }
    const Candidate mine{least, static_cast<int>(t)};
    if (mine.beats(best)) best = mine;
  }
  return best_row(best, of_warps);
}

/// Implements approach() of the CPU; then returns the extreme row, in every thread. `chosen` (-1: none) is excluded
/// from now on.
__device__ int measure(const SpreadRowsArgs& a, const float* to, int chosen, bool keep, bool nearest,
                       Candidate* of_warps) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  Candidate best{0, -1};
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
    const Candidate mine{nearest ? -score : score, static_cast<int>(t)};
    if (mine.beats(best)) best = mine;
  }
  return best_row(best, of_warps);
}

__global__ void __launch_bounds__(kThreads) choose_rows(const __grid_constant__ SpreadRowsArgs a) {
  __shared__ Candidate of_warps[kWarps];
  wait_for_inputs();
  let_next_start();
  int row;
  if (a.by == SpreadBy::kPlace) {
    find_mean(a);
    __syncthreads();
    row = measure(a, a.mean, -1, false, true, of_warps);
  } else {
    row = find_loneliest(a, of_warps);
  }
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
