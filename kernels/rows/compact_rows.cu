#include "kernels/backends.h"
#include "kernels/base/launch.cuh"
#include "kernels/rows/compact_rows.h"
#include "platform/round_up.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kAtOnce = 8;

/// A thread moves one column, row after row. It loads several rows before it stores them: no row that is still to be
/// loaded is overwritten, as kept[i] >= i.
__global__ void move_column(const __grid_constant__ CompactRowsArgs a) {
  wait_for_inputs();
  let_next_start();
  const int64_t col = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (col >= a.rows.cols) return;
  float* const column = a.rows.data + col;
  for (int64_t i = 0; i < a.count; i += kAtOnce) {
    float values[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
      if (i + k < a.count) values[k] = column[a.kept[i + k] * a.rows.stride];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
      if (i + k < a.count) column[(i + k) * a.rows.stride] = values[k];
  }
}

}  // namespace

void compact_rows(const CompactRowsArgs& args, Queue& queue) {
  if (args.count == 0) return;
  launch<move_column>(queue, "compact_rows",
                      {.grid = dim3(static_cast<unsigned>(divide_up(args.rows.cols, kThreads))), .threads = kThreads},
                      args);
}

}  // namespace cuda
}  // namespace ocellus
