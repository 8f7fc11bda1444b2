#include "kernels/backends.h"
#include "kernels/base/device_math.cuh"
#include "kernels/base/launch.cuh"
#include "kernels/choice/row_products.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kSide = 32;     // rows and columns of a block's products
constexpr int kColumns = 32;  // columns of the rows at a time
constexpr int kThreads = 256;
constexpr int kOfThread = kSide * kSide / kThreads;

/// A block computes products on or right of the diagonal, and writes each at both of its places. Both are sums in the
/// same order.
__global__ void __launch_bounds__(kThreads) multiply_rows(const __grid_constant__ RowProductsArgs a) {
  __shared__ float left[kSide][kColumns + 1], right[kSide][kColumns + 1];
  wait_for_inputs();
  let_next_start();
  if (blockIdx.x < blockIdx.y) return;
  const int64_t n = a.products.rows, first_row = int64_t{blockIdx.y} * kSide, first_col = int64_t{blockIdx.x} * kSide;
  const int lane = static_cast<int>(threadIdx.x) % kSide, line = static_cast<int>(threadIdx.x) / kSide;
  const auto value = [&](int64_t number, int64_t col) {
    return number < n && col < a.rows.cols ? a.rows.data[a.list[number] * a.rows.stride + col] : 0.0f;
  };
  float sums[kOfThread] = {};
  for (int64_t col = 0; col < a.rows.cols; col += kColumns) {
    for (int i = line; i < kSide; i += kThreads / kSide) {
      left[i][lane] = value(first_row + i, col + lane);
      right[i][lane] = value(first_col + i, col + lane);
    }
    __syncthreads();
    for (int c = 0; c < kColumns; ++c)
#pragma unroll
      for (int k = 0; k < kOfThread; ++k)
        sums[k] = fmaf(left[line + k * (kThreads / kSide)][c], right[lane][c], sums[k]);
    __syncthreads();
  }
#pragma unroll
  for (int k = 0; k < kOfThread; ++k) {
    const int64_t row = first_row + line + k * (kThreads / kSide), col = first_col + lane;
    if (row >= n || col >= n || row > col) continue;
    a.products.data[row * a.products.stride + col] = sums[k];
    a.products.data[col * a.products.stride + row] = sums[k];
  }
}

}  // namespace

void row_products(const RowProductsArgs& args, Queue& queue) {
  const auto blocks = static_cast<unsigned>(divide_up(args.products.rows, kSide));
  launch<multiply_rows>(queue, "row_products", {.grid = dim3(blocks, blocks), .threads = kThreads}, args);
}

}  // namespace cuda
}  // namespace ocellus
