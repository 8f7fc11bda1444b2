// Rows held in registers by one block each, so that norms read memory once.
#pragma once

#include "kernels/base/launch.cuh"
#include "kernels/base/row_access.cuh"

namespace ocellus::cuda {

/// A thread holds kChunks groups of four values of its block's row, a block's width of groups apart.
template <int kChunks>
struct RowRegisters {
  float values[kChunks][4];

  /// Calls body(group's first column, its values) for the row's groups.
  template <class Body>
  __device__ void for_each(int cols, Body body) {
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const int col = 4 * static_cast<int>(threadIdx.x + chunk * blockDim.x);
      if (col < cols) body(col, values[chunk]);
    }
  }
  template <class T>
  __device__ void load(const T* row, int cols) {
    for_each(cols, [&](int col, float(&group)[4]) { load_values(row + col, group); });
  }
};

/// Rows up to this length are held in two groups per thread, then in four; longer ones, and those whose address or
/// length does not allow groups, are read again in every pass. The choice depends on the row's length only, so a row's
/// result does not depend on the number of rows.
inline constexpr int64_t kShortRow = 4096;
inline constexpr int64_t kLongRow = 8192;
inline constexpr int kMaxRowThreads = 512;  // kShortRow / (4 * 2), kLongRow / (4 * 4)
inline constexpr int kPlainRowThreads = 256;

inline int row_threads(int64_t cols, int chunks) {
  return static_cast<int>(divide_up(cols, 4 * chunks * kWarp) * kWarp);
}

/// Launches one block per row of the kernel for its length: two groups per thread, four, or the plain one. `wide`:
/// addresses and length allow groups.
template <auto kShort, auto kLong, auto kPlain, class View, class... Values>
void launch_rows(Queue& queue, const char* op, const View& input, bool wide, const Values&... values) {
  const unsigned grid = static_cast<unsigned>(input.rows);
  if (wide && input.cols <= kShortRow)
    launch<kShort>(queue, op, {.grid = grid, .threads = row_threads(input.cols, 2)}, values...);
  else if (wide && input.cols <= kLongRow)
    launch<kLong>(queue, op, {.grid = grid, .threads = row_threads(input.cols, 4)}, values...);
  else
    launch<kPlain>(queue, op, {.grid = grid, .threads = kPlainRowThreads}, values...);
}

}  // namespace ocellus::cuda
