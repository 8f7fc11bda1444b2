#include "kernels/backends.h"
#include "kernels/base/device_math.cuh"
#include "kernels/base/launch.cuh"
#include "kernels/cache/split_modalities.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kThreads = 256;

/// Block (rows, head).
__global__ void split_rows(const __grid_constant__ SplitModalitiesArgs args) {
  const int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x, head = blockIdx.y;
  wait_for_inputs();
  let_next_start();
  if (row >= args.row_count) return;
  modalities::split(args.of_text.data[head * args.of_text.stride + row],
                    args.of_visual.data[head * args.of_visual.stride + row], args.is_visual[row] != 0,
                    args.sums.data[head * args.sums.stride + row]);
}

}  // namespace

void split_modalities(const SplitModalitiesArgs& args, Queue& queue) {
  if (args.row_count == 0) return;
  const dim3 grid(static_cast<unsigned>(divide_up(args.row_count, kThreads)), static_cast<unsigned>(args.sums.rows));
  launch<split_rows>(queue, "split_modalities", {.grid = grid, .threads = kThreads}, args);
}

}  // namespace cuda
}  // namespace ocellus
