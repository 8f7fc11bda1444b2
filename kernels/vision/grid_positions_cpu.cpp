#include "kernels/backends.h"
#include "kernels/base/row_pieces.h"
#include "kernels/rows/rope_angles.h"
#include "kernels/vision/grid_positions.h"

namespace ocellus {

void cpu::add_positions(const AddPositionsArgs& args, Queue& queue) {
  const PatchGrid& grid = args.grid;
  const int64_t grain = rows_per_piece(args.values.cols, 16384);
  queue.parallel(args.values.rows, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      const PatchGrid::Place at = grid.place(static_cast<int32_t>(args.first + t));
      const TableStep y = TableStep::of(at.line, grid.lines, args.side, args.by_edges),
                      x = TableStep::of(at.col, grid.cols, args.side, args.by_edges);
      const auto row = [&](int32_t line, int32_t col) { return args.table.row(int64_t{line} * args.side + col); };
      const float *top_left = row(y.low, x.low), *top_right = row(y.low, x.high), *left = row(y.high, x.low),
                  *right = row(y.high, x.high);
      float* const out = args.values.row(t);
      for (int64_t c = 0; c < args.values.cols; ++c)
        out[c] += (1 - y.share) * (1 - x.share) * top_left[c] + (1 - y.share) * x.share * top_right[c] +
                  y.share * (1 - x.share) * left[c] + y.share * x.share * right[c];
    }
  });
}

void cpu::add_mean_positions(const AddPositionsArgs& args, Queue& queue) {
  const PatchGrid& grid = args.grid;
  queue.parallel(args.values.rows, rows_per_piece(args.values.cols, 16384), [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      const PatchGrid::Place at = grid.place(static_cast<int32_t>(args.first + t));
      const TableWindow y = TableWindow::of(at.line, grid.lines, args.side),
                        x = TableWindow::of(at.col, grid.cols, args.side);
      float* const out = args.values.row(t);
      for (int32_t i = 0; i < y.window.count; ++i)
        for (int32_t j = 0; j < x.window.count; ++j) {
          const float weight = y.weight(i) * x.weight(j);
          const float* const from = args.table.row(int64_t{y.window.first + i} * args.side + x.window.first + j);
          for (int64_t c = 0; c < args.values.cols; ++c) out[c] += weight * from[c];
        }
    }
  });
}

void cpu::add_axis_positions(const AddPositionsArgs& args, Queue& queue) {
  const int64_t grain = rows_per_piece(args.values.cols, 16384);
  queue.parallel(args.values.rows, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      const PatchGrid::Place at = args.grid.place(static_cast<int32_t>(args.first + t));
      const float *across = args.table.row(at.col), *down = args.table.row(int64_t{args.side} + at.line);
      float* const out = args.values.row(t);
      for (int64_t c = 0; c < args.values.cols; ++c) out[c] += across[c] + down[c];
    }
  });
}

/// Pairs are the outer loop: the power is computed once for all patches of a piece.
void cpu::grid_angles(const GridAnglesArgs& args, Queue& queue) {
  const RopeParams half = half_rope(args.params);
  const int64_t pairs = half.rotated / 2;
  const double ratio = second_turn(args);
  queue.parallel(args.angles.rows, rows_per_piece(args.params.rotated, 1024), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = 0; i < pairs; ++i) {
      const double turn = rope_turn(half, i);
      for (int64_t t = begin; t < end; ++t) {
        const PatchGrid::Place at = args.grid.place(static_cast<int32_t>(t));
        set_rope_angle(args.cols_first ? at.col : at.line, turn, i, args.angles.row(t));
        set_rope_angle(args.cols_first ? at.line : at.col, turn * ratio, pairs + i, args.angles.row(t));
      }
    }
  });
}

void cpu::list_windows(const ListWindowsArgs& args, Queue& queue) {
  queue.parallel(args.grid.count(), 4096, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) args.spans[t] = window_span(args.grid, static_cast<int32_t>(t));
  });
}

}  // namespace ocellus
