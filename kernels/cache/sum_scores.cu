#include "kernels/backends.h"
#include "kernels/base/device_math.cuh"
#include "kernels/base/launch.cuh"
#include "kernels/cache/sum_scores.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / kWarp;

/// One block. Every thread's sum and the tree over them have a fixed order.
__global__ void __launch_bounds__(kThreads) sum_all(const __grid_constant__ SumScoresArgs args) {
  __shared__ double of_warp[kWarps];
  wait_for_inputs();
  let_next_start();
  double sum = 0;
  for (int64_t head = 0; head < args.scores.rows; ++head)
    for (int64_t row = threadIdx.x; row < args.row_count; row += kThreads)
      sum += static_cast<double>(args.scores.data[head * args.scores.stride + row]);
  for (int offset = kWarp / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, offset);
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  double all = 0;
  for (int i = 0; i < kWarps; ++i) all += of_warp[i];
  *args.total = static_cast<float>(all);
}

}  // namespace

void sum_scores(const SumScoresArgs& args, Queue& queue) {
  launch<sum_all>(queue, "sum_scores", {.grid = 1, .threads = kThreads}, args);
}

}  // namespace cuda
}  // namespace ocellus
