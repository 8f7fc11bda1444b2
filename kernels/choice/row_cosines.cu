#include "kernels/backends.h"
#include "kernels/base/device_math.cuh"
#include "kernels/base/launch.cuh"
#include "kernels/choice/row_cosines.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;

/// A block sums the texts' directions, in their order.
__global__ void __launch_bounds__(kThreads) average_directions(const __grid_constant__ RowCosinesArgs a) {
  __shared__ float room[kWarp];
  wait_for_inputs();
  let_next_start();
  for (int64_t i = threadIdx.x; i < a.rows.cols; i += kThreads) a.mean[i] = 0;
  for (int64_t t = 0; t < a.text_count; ++t) {
    const float* const row = a.rows.data + a.texts[t] * a.rows.stride;
    float sum = 0;
    for (int64_t i = threadIdx.x; i < a.rows.cols; i += kThreads) sum = fmaf(row[i], row[i], sum);
    const float length = sqrtf(block_sum(sum, room));
    __syncthreads();  // before the room is used again
    for (int64_t i = threadIdx.x; length > 0 && i < a.rows.cols; i += kThreads) a.mean[i] += row[i] / length;
  }
}

/// A warp takes a row.
__global__ void __launch_bounds__(kThreads) compare_rows(const __grid_constant__ RowCosinesArgs a) {
  const int64_t number = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
  wait_for_inputs();
  let_next_start();
  if (number >= a.count) return;
  const float* const row = a.rows.data + a.list[number] * a.rows.stride;
  const float* const to = a.others != nullptr ? a.rows.data + a.others[number] * a.rows.stride : a.mean;
  float ab = 0, aa = 0, bb = 0;
  for (int64_t i = threadIdx.x % kWarp; i < a.rows.cols; i += kWarp) {
    ab = fmaf(row[i], to[i], ab);
    aa = fmaf(row[i], row[i], aa);
    bb = fmaf(to[i], to[i], bb);
  }
  const float lengths = sqrtf(warp_sum(aa)) * sqrtf(warp_sum(bb));
  ab = warp_sum(ab);
  if (threadIdx.x % kWarp == 0) a.cosines[number] = lengths > 0 ? ab / lengths : 0.0f;
}

}  // namespace

void row_cosines(const RowCosinesArgs& args, Queue& queue) {
  if (args.others == nullptr) launch<average_directions>(queue, "row_cosines", {.grid = 1, .threads = kThreads}, args);
  launch<compare_rows>(queue, "row_cosines",
                       {.grid = static_cast<unsigned>(divide_up(args.count, kWarps)), .threads = kThreads}, args);
}

}  // namespace cuda
}  // namespace ocellus
