#include <cuda_fp16.h>

#include "kernels/backends.h"
#include "kernels/base/launch.cuh"
#include "kernels/vision/pool_attention.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kThreads = 128;

/// One output row a block, one value a thread.
__global__ void pool_row(const __grid_constant__ PoolAttentionArgs args) {
  const int parts = args.scale * args.scale, heads = args.rows.heads;
  const int64_t t = blockIdx.x;
  wait_for_inputs();
  let_next_start();
  for (int col = static_cast<int>(threadIdx.x); col <= args.rows.head_dim; col += kThreads) {
    float sum = 0;
    for (int part = 0; part < parts; ++part) {
      const int64_t row = args.patch(t, part);
      for (int head = 0; head < heads; ++head) {
        const auto* keys = reinterpret_cast<const __half*>(args.rows.keys) + args.rows.at(row, head);
        sum += col == 0 ? args.scores.data[head * args.scores.stride + row] : __half2float(keys[col - 1]);
      }
    }
    const float count = static_cast<float>(parts * heads) * (col == 0 ? static_cast<float>(args.queries) : 1.0f);
    args.output.data[t * args.output.stride + col] = sum / count;
  }
}

}  // namespace

void pool_attention(const PoolAttentionArgs& args, Queue& queue) {
  launch<pool_row>(queue, "pool_attention", {.grid = static_cast<unsigned>(args.output.rows), .threads = kThreads},
                   args);
}

}  // namespace cuda
}  // namespace ocellus
