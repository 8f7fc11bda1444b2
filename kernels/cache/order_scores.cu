// A warp finds a row's rank by counting the rows that sort before it. That is a quadratic number of comparisons, few
// compared with the attention of the same rows.
#include "kernels/backends.h"
#include "kernels/base/device_math.cuh"
#include "kernels/base/launch.cuh"
#include "kernels/cache/order_scores.h"
#include "kernels/cache/select_slots-inl.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kRowsPerBlock = kThreads / kWarp;

/// Block (rows, head). Leaves order[place of the row] = row.
__global__ void place_rows(const __grid_constant__ OrderScoresArgs args) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, head = static_cast<int>(blockIdx.y);
  const int rows = static_cast<int>(args.end - args.first);
  const int row = static_cast<int>(blockIdx.x) * kRowsPerBlock + static_cast<int>(threadIdx.x) / kWarp;
  wait_for_inputs();
  let_next_start();
  if (row >= rows) return;
  const float* scores = args.scores.data + head * args.scores.stride + args.first;
  const uint32_t own = select::rank_of(scores[row]);
  int before = 0;
  for (int other = lane; other < rows; other += kWarp) {
    const uint32_t rank = select::rank_of(scores[other]);
    before += rank < own || (rank == own && other < row) ? 1 : 0;
  }
  for (int offset = kWarp / 2; offset > 0; offset /= 2) before += __shfl_xor_sync(0xFFFFFFFFu, before, offset);
  if (lane == 0) args.order.data[head * args.order.stride + before] = row;
}

/// Block (rows, head): the order as scores.
__global__ void write_order(const __grid_constant__ OrderScoresArgs args) {
  const int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x, head = blockIdx.y;
  wait_for_inputs();
  let_next_start();
  if (row >= args.end - args.first) return;
  args.scores.data[head * args.scores.stride + args.first + row] =
      static_cast<float>(args.order.data[head * args.order.stride + row]);
}

}  // namespace

void order_scores(const OrderScoresArgs& args, Queue& queue) {
  const int64_t rows = args.end - args.first;
  if (rows <= 0) return;
  const auto heads = static_cast<unsigned>(args.scores.rows);
  launch<place_rows>(queue, "order_scores",
                     {.grid = dim3(static_cast<unsigned>(divide_up(rows, kRowsPerBlock)), heads), .threads = kThreads},
                     args);
  launch<write_order>(queue, "order_scores",
                      {.grid = dim3(static_cast<unsigned>(divide_up(rows, kThreads)), heads), .threads = kThreads},
                      args);
}

}  // namespace cuda
}  // namespace ocellus
