#include "kernels/backends.h"
#include "kernels/base/device_math.cuh"
#include "kernels/base/launch.cuh"
#include "kernels/cache/favour_rows.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kThreads = 256;

/// Block (list entries, head).
__global__ void raise_rows(const __grid_constant__ FavourRowsArgs args) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x, head = blockIdx.y;
  wait_for_inputs();
  let_next_start();
  if (i >= args.counts[head]) return;
  const int32_t row = args.rows.data[head * args.rows.stride + i];
  if (args.reasons.data[head * args.reasons.stride + row] > 0)
    args.scores.data[head * args.scores.stride + row] += args.amount;
}

}  // namespace

void favour_rows(const FavourRowsArgs& args, Queue& queue) {
  if (args.most_listed == 0) return;
  const dim3 grid(static_cast<unsigned>(divide_up(args.most_listed, kThreads)),
                  static_cast<unsigned>(args.scores.rows));
  launch<raise_rows>(queue, "favour_rows", {.grid = grid, .threads = kThreads}, args);
}

}  // namespace cuda
}  // namespace ocellus
