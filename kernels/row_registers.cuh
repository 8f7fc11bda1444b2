// Rows held in registers by one block each, so that norms read memory once.
#pragma once

#include "kernels/row_access.cuh"

namespace ocellus::cuda {

/// A thread holds kChunks groups of four values of its block's row, a block's width of groups apart.
template <int kChunks>
struct RowRegisters {
  float values[kChunks][4];

  /// Calls body(group's first column, its values) for the groups that the row has.
  template <class Body>
  __device__ void for_each(int cols, Body body) {
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const int col = 4 * static_cast<int>(threadIdx.x + chunk * blockDim.x);
      if (col < cols) body(col, values[chunk]);
    }
  }
  __device__ void load(const float* row, int cols) {
    for_each(cols, [&](int col, float(&group)[4]) { load_values(row + col, group); });
  }
};

/// Rows up to here are held in two groups a thread, then in four; longer ones, and those whose addresses or length do
/// not allow groups, are read again for every pass. The choice depends on the row's length alone, so a row's result
/// does not depend on how many rows it came with.
inline constexpr int64_t kShortRow = 4096;
inline constexpr int64_t kLongRow = 8192;
inline constexpr int kMostRowThreads = 512;  // kShortRow / (4 * 2), kLongRow / (4 * 4)
inline constexpr int kPlainRowThreads = 256;

inline int row_threads(int64_t cols, int chunks) {
  return static_cast<int>(divide_up(cols, 4 * chunks * kWarp) * kWarp);
}

}  // namespace ocellus::cuda
