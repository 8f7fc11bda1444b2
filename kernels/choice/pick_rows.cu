// One block chooses all rows, one after the other, each from a line of the products.
#include "kernels/backends.h"
#include "kernels/base/best_row.cuh"
#include "kernels/base/launch.cuh"
#include "kernels/choice/pick_rows.h"

namespace ocellus {
namespace cuda {
namespace {

using picking::kTaken;
using picking::score_of;

constexpr int kThreads = kBestRowThreads;
constexpr int kLineThreads = 256;

__device__ float& product(const PickRowsArgs& a, int64_t row, int64_t col) {
  return a.products.data[row * a.products.stride + col];
}
__device__ void consider(float score, int64_t row, RowScore& best) {
  const RowScore mine{score_of(score), static_cast<int>(row)};
  if (score != kTaken && mine.beats(best)) best = mine;
}
/// Returns the row with the highest score that is not taken, in every thread.
__device__ int best_row(const float* scores, int64_t rows, RowScore* of_warps) {
  RowScore best;
  for (int64_t t = threadIdx.x; t < rows; t += kThreads) consider(scores[t], t, best);
  return best_of_block(best, of_warps).row;
}

/// `lengths`: of the rows.
__device__ float angle_between(const PickRowsArgs& a, const float* lengths, int64_t t, int64_t u) {
  return picking::angle_distance(product(a, u, t), lengths[t], lengths[u]);
}

__global__ void __launch_bounds__(kThreads) pick_angles(const __grid_constant__ PickRowsArgs a) {
  __shared__ RowScore of_warps[kWarp];
  const int64_t rows = a.products.rows;
  float *const least = a.scratch, *const lengths = least + rows;
  wait_for_inputs();
  let_next_start();
  for (int64_t t = threadIdx.x; t < rows; t += kThreads) lengths[t] = sqrtf(product(a, t, t));
  __syncthreads();
  RowScore best;
  for (int64_t t = threadIdx.x; t < rows; t += kThreads) {
    float nearest = INFINITY;
    for (int64_t u = 0; u < rows; ++u)
      if (u != t) nearest = fminf(nearest, angle_between(a, lengths, t, u));
    least[t] = nearest;
    consider(nearest, t, best);
  }
  for (int64_t k = 0; k < a.count; ++k) {
    const int64_t row = best_of_block(best, of_warps).row;
    if (threadIdx.x == 0) a.picks[k] = static_cast<int32_t>(row);
    best = {};
    for (int64_t t = threadIdx.x; t < rows; t += kThreads) {
      const float before = least[t], distance = angle_between(a, lengths, t, row);
      const float now = before == kTaken || t == row ? kTaken : k == 0 ? distance : fminf(before, distance);
      least[t] = now;
      consider(now, t, best);
    }
  }
}

/// See the CPU's.
__global__ void __launch_bounds__(kThreads) pick_determinant(const __grid_constant__ PickRowsArgs a) {
  __shared__ RowScore of_warps[kWarp];
  const int64_t rows = a.products.rows;
  float* const volume = a.scratch;
  float* const scale = volume + rows;
  float* const lines = scale + rows;
  wait_for_inputs();
  let_next_start();
  const auto relevance = [&](int64_t t) { return a.relevance != nullptr ? a.relevance[t] : 1.0f; };
  for (int64_t t = threadIdx.x; t < rows; t += kThreads) {
    const float square = product(a, t, t);
    scale[t] = square > 0 ? relevance(t) / sqrtf(square) : 0.0f;
    volume[t] = square > 0 ? relevance(t) * relevance(t) : 0.0f;
  }
  bool spans = true;
  for (int64_t k = 0; k < a.count; ++k) {
    int64_t row = best_row(volume, rows, of_warps);
    if (spans && !(volume[row] > picking::kLeastVolume)) {
      spans = false;
      __syncthreads();  // all have read the volume
      for (int64_t t = threadIdx.x; t < rows; t += kThreads)
        if (volume[t] != kTaken) volume[t] = relevance(t);
      row = best_row(volume, rows, of_warps);
    }
    if (threadIdx.x == 0) a.picks[k] = static_cast<int32_t>(row);
    const float root = sqrtf(volume[row]), row_scale = scale[row];
    __syncthreads();
    float* const line = lines + k * rows;
    for (int64_t t = threadIdx.x; t < rows; t += kThreads) {
      if (spans) {
        float entry = row_scale * product(a, row, t) * scale[t];
        for (int64_t i = 0; i < k; ++i) entry = fmaf(-lines[i * rows + row], lines[i * rows + t], entry);
        entry /= root;
        line[t] = entry;
        if (volume[t] != kTaken) volume[t] -= entry * entry;
      }
      if (t == row) volume[t] = kTaken;
    }
  }
}

/// A block takes a row: sums[t] = the sum of its squared distances, which take the place of its products.
__global__ void __launch_bounds__(kLineThreads)
    find_distances(const __grid_constant__ PickRowsArgs a, float* squares, float* sums) {
  __shared__ float room[kWarp];
  const int64_t t = blockIdx.x;
  wait_for_inputs();
  float sum = 0;
  for (int64_t u = threadIdx.x; u < a.products.rows; u += kLineThreads) {
    const float distance = u == t ? 0 : picking::squared_distance(product(a, t, u), squares[t], squares[u]);
    product(a, t, u) = distance;
    sum += distance;
  }
  sum = block_sum(sum, room);
  if (threadIdx.x == 0) sums[t] = sum;
}

/// The squares of the rows' lengths, before distances overwrite them.
__global__ void __launch_bounds__(kLineThreads) keep_squares(const __grid_constant__ PickRowsArgs a, float* squares) {
  const int64_t t = int64_t{blockIdx.x} * kLineThreads + threadIdx.x;
  wait_for_inputs();
  if (t < a.products.rows) squares[t] = product(a, t, t);
}

/// A block takes a row of costs; gains[t] = minus their sum.
__global__ void __launch_bounds__(kLineThreads)
    find_costs(const __grid_constant__ PickRowsArgs a, const float* sums, float* gains) {
  __shared__ float room[kWarp];
  const int64_t t = blockIdx.x, rows = a.products.rows;
  wait_for_inputs();
  float all = 0;
  for (int64_t u = threadIdx.x; u < rows; u += kLineThreads) all += sums[u];
  const float mean = block_sum(all, room) / (static_cast<float>(rows) * static_cast<float>(rows));
  const float scale = mean > 0 ? 1 / mean : 0.0f;
  __syncthreads();  // before the room is used again
  float sum = 0;
  for (int64_t u = threadIdx.x; u < rows; u += kLineThreads) {
    const float cost = product(a, t, u) * scale + a.place_weight * picking::place_distance(a.places[t], a.places[u]);
    product(a, t, u) = cost;
    sum += cost;
  }
  sum = block_sum(sum, room);
  if (threadIdx.x == 0) gains[t] = -sum;
}

/// Cost of row t that a choice of `row` would save.
__device__ float saving(const PickRowsArgs& a, float least, int64_t row, int64_t t) {
  return fmaxf(0.0f, least - product(a, t, row));
}

/// Rows whose nearest choice has changed, in their order.
struct ChangedRows {
  int of_warps[kWarp];
  int rows[kThreads];
  float before[kThreads];
};

/// Makes row `row` the nearest choice of those of the rows from `first` on, one a thread, that it is nearer to. Returns
/// their number, in every thread.
__device__ int approach(const PickRowsArgs& a, int64_t row, int32_t pick, int64_t first, float* least, int32_t* nearest,
                        ChangedRows& changed) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t t = first + threadIdx.x;
  const bool exists = t < a.products.rows;
  const float before = exists ? least[t] : 0, cost = exists ? product(a, row, t) : 0;
  const bool changes = exists && (cost < before || t == row);
  const unsigned in_warp = __ballot_sync(0xFFFFFFFFu, changes);
  if (lane == 0) changed.of_warps[warp] = __popc(in_warp);
  __syncthreads();
  int at = __popc(in_warp & ((1u << lane) - 1)), count = 0;
  for (int w = 0; w < kWarp; ++w) {
    at += w < warp ? changed.of_warps[w] : 0;
    count += changed.of_warps[w];
  }
  if (changes) {
    changed.rows[at] = static_cast<int>(t);
    changed.before[at] = before;
    least[t] = cost;
    nearest[t] = pick;
  }
  __syncthreads();
  return count;
}

/// See the CPU's.
__global__ void __launch_bounds__(kThreads) pick_cover(const __grid_constant__ PickRowsArgs a, float* gains) {
  __shared__ RowScore of_warps[kWarp];
  __shared__ ChangedRows changed;
  const int64_t rows = a.products.rows;
  float* const least = a.scratch;
  auto* const nearest = reinterpret_cast<int32_t*>(least + 2 * rows);
  const int thread = static_cast<int>(threadIdx.x);
  wait_for_inputs();
  let_next_start();
  for (int64_t t = thread; t < rows; t += kThreads) {
    least[t] = INFINITY;
    nearest[t] = 0;
  }
  for (int64_t k = thread; a.stands_for != nullptr && k < a.count; k += kThreads) a.stands_for[k] = 0;
  __syncthreads();
  for (int64_t k = 0; k < a.count; ++k) {
    const int64_t row = best_row(gains, rows, of_warps);
    if (thread == 0) {
      a.picks[k] = static_cast<int32_t>(row);
      gains[row] = kTaken;
    }
    for (int64_t first = 0; first < rows; first += kThreads) {
      const int count = approach(a, row, static_cast<int32_t>(k), first, least, nearest, changed);
      for (int64_t c = thread; k > 0 && c < rows; c += kThreads) {
        if (gains[c] == kTaken) continue;
        float gain = gains[c];
        for (int i = 0; i < count; ++i) {
          const int t = changed.rows[i];
          gain -= saving(a, changed.before[i], c, t) - saving(a, least[t], c, t);
        }
        gains[c] = gain;
      }
      __syncthreads();  // before the list is written again
    }
    for (int64_t c = thread; k == 0 && c < rows; c += kThreads) {
      if (gains[c] == kTaken) continue;
      float gain = 0;
      for (int64_t t = 0; t < rows; ++t) gain += saving(a, least[t], c, t);
      gains[c] = gain;
    }
  }
  __syncthreads();
  for (int64_t t = thread; a.stands_for != nullptr && t < rows; t += kThreads) atomicAdd(&a.stands_for[nearest[t]], 1);
}

void cover(const PickRowsArgs& args, Queue& queue) {
  const int64_t rows = args.products.rows;
  float *const squares = args.scratch, *const gains = squares + rows, *const sums = gains + rows;
  const auto lines = static_cast<unsigned>(rows);
  launch<keep_squares>(queue, "pick_rows",
                       {.grid = static_cast<unsigned>(divide_up(rows, kLineThreads)), .threads = kLineThreads}, args,
                       squares);
  launch<find_distances>(queue, "pick_rows", {.grid = lines, .threads = kLineThreads}, args, squares, sums);
  launch<find_costs>(queue, "pick_rows", {.grid = lines, .threads = kLineThreads}, args, sums, gains);
  launch<pick_cover>(queue, "pick_rows", {.grid = 1, .threads = kThreads}, args, gains);
}

}  // namespace

void pick_rows(const PickRowsArgs& args, Queue& queue) {
  if (args.count == 0) return;
  if (args.by == PickBy::kCover) return cover(args, queue);
  const LaunchShape shape{.grid = 1, .threads = kThreads};
  if (args.by == PickBy::kAngle) return launch<pick_angles>(queue, "pick_rows", shape, args);
  launch<pick_determinant>(queue, "pick_rows", shape, args);
}

}  // namespace cuda
}  // namespace ocellus
