#include "kernels/backends.h"
#include "kernels/base/launch.cuh"
#include "kernels/rows/rope_angles.cuh"
#include "kernels/vision/grid_positions.h"
#include "platform/round_up.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kAngleThreads = 32;

/// blockIdx.x is the row.
__global__ void add_table_rows(float* values, int64_t stride, int64_t cols, const float* table, int64_t table_stride,
                               int side, PatchGrid grid, int first, bool by_edges) {
  const PatchGrid::Place at = grid.place(first + static_cast<int>(blockIdx.x));
  const TableStep y = TableStep::of(at.line, grid.lines, side, by_edges),
                  x = TableStep::of(at.col, grid.cols, side, by_edges);
  const float* const low = table + int64_t{y.low} * side * table_stride;
  const float* const high = table + int64_t{y.high} * side * table_stride;
  wait_for_inputs();
  let_next_start();
  for (int64_t c = threadIdx.x; c < cols; c += kThreads)
    values[blockIdx.x * stride + c] += (1 - y.share) * (1 - x.share) * low[x.low * table_stride + c] +
                                       (1 - y.share) * x.share * low[x.high * table_stride + c] +
                                       y.share * (1 - x.share) * high[x.low * table_stride + c] +
                                       y.share * x.share * high[x.high * table_stride + c];
}

/// blockIdx.x is the row.
__global__ void add_mean_rows(float* values, int64_t stride, int64_t cols, const float* table, int64_t table_stride,
                              int side, PatchGrid grid, int first) {
  const PatchGrid::Place at = grid.place(first + static_cast<int>(blockIdx.x));
  const TableWindow y = TableWindow::of(at.line, grid.lines, side), x = TableWindow::of(at.col, grid.cols, side);
  float* const out = values + blockIdx.x * stride;
  wait_for_inputs();
  let_next_start();
  for (int i = 0; i < y.window.count; ++i)
    for (int j = 0; j < x.window.count; ++j) {
      const float weight = y.weight(i) * x.weight(j);
      const float* const from = table + (int64_t{y.window.first + i} * side + x.window.first + j) * table_stride;
      for (int64_t c = threadIdx.x; c < cols; c += kThreads) out[c] += weight * from[c];
    }
}

/// blockIdx.x is the row.
__global__ void add_axis_rows(float* values, int64_t stride, int64_t cols, const float* table, int64_t table_stride,
                              int side, PatchGrid grid, int first) {
  const PatchGrid::Place at = grid.place(first + static_cast<int>(blockIdx.x));
  const float* const across = table + int64_t{at.col} * table_stride;
  const float* const down = table + (int64_t{side} + at.line) * table_stride;
  wait_for_inputs();
  let_next_start();
  for (int64_t c = threadIdx.x; c < cols; c += kThreads) values[blockIdx.x * stride + c] += across[c] + down[c];
}

/// blockIdx.x is the patch, a thread a pair of either half. `ratio`: of the second half's turns to the first's.
__global__ void fill_grid_angles(PatchGrid grid, RopeParams half, double octaves, double ratio, bool cols_first,
                                 float* angles, int64_t stride) {
  const PatchGrid::Place at = grid.place(static_cast<int>(blockIdx.x));
  float* const out = angles + blockIdx.x * stride;
  const int pairs = half.rotated / 2;
  wait_for_inputs();
  let_next_start();
  for (int pair = threadIdx.x; pair < pairs; pair += kAngleThreads) {
    const double step = angle_step(half, octaves, pair);
    const float2 first = turn_at(cols_first ? at.col : at.line, step),
                 second = turn_at(cols_first ? at.line : at.col, step * ratio);
    out[2 * pair] = first.x;
    out[2 * pair + 1] = first.y;
    out[2 * (pairs + pair)] = second.x;
    out[2 * (pairs + pair) + 1] = second.y;
  }
}

__global__ void fill_windows(PatchGrid grid, RowSpan* spans) {
  wait_for_inputs();
  let_next_start();
  const int patch = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (patch < grid.count()) spans[patch] = window_span(grid, patch);
}

}  // namespace

void add_positions(const AddPositionsArgs& args, Queue& queue) {
  launch<add_table_rows>(queue, "add_positions", {.grid = static_cast<unsigned>(args.values.rows), .threads = kThreads},
                         args.values.data, args.values.stride, args.values.cols, args.table.data, args.table.stride,
                         args.side, args.grid, static_cast<int>(args.first), args.by_edges);
}

void add_mean_positions(const AddPositionsArgs& args, Queue& queue) {
  launch<add_mean_rows>(queue, "add_mean_positions",
                        {.grid = static_cast<unsigned>(args.values.rows), .threads = kThreads}, args.values.data,
                        args.values.stride, args.values.cols, args.table.data, args.table.stride, args.side, args.grid,
                        static_cast<int>(args.first));
}

void add_axis_positions(const AddPositionsArgs& args, Queue& queue) {
  launch<add_axis_rows>(queue, "add_axis_positions",
                        {.grid = static_cast<unsigned>(args.values.rows), .threads = kThreads}, args.values.data,
                        args.values.stride, args.values.cols, args.table.data, args.table.stride, args.side, args.grid,
                        static_cast<int>(args.first));
}

void grid_angles(const GridAnglesArgs& args, Queue& queue) {
  const RopeParams half = half_rope(args.params);
  launch<fill_grid_angles>(
      queue, "grid_angles", {.grid = static_cast<unsigned>(args.angles.rows), .threads = kAngleThreads}, args.grid,
      half, octaves_per_pair(half), second_turn(args), args.cols_first, args.angles.data, args.angles.stride);
}

void list_windows(const ListWindowsArgs& args, Queue& queue) {
  launch<fill_windows>(queue, "list_windows",
                       {.grid = static_cast<unsigned>(divide_up(args.grid.count(), kThreads)), .threads = kThreads},
                       args.grid, args.spans);
}

}  // namespace cuda
}  // namespace ocellus
