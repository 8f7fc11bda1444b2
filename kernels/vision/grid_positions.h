// Places of patches in views of any size, as towers use them: positions, rotations, windows.
#pragma once

#include <cmath>

#include "kernels/attention/attend_rows.h"
#include "kernels/base/patch_grid.h"
#include "kernels/rows/rope.h"
#include "kernels/vision/resample_math.h"
#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// Adds positions to the patches of a view: a square table is stretched over the grid, its corners to the grid's
/// corners, and read between its four nearest rows.
/// x[t] += the table at (line (side - 1) / (lines - 1), col (side - 1) / (cols - 1)), bilinear, where (line, col) is
/// the place of patch first + t; a grid of one line or column reads the table's first. `by_edges`: edges lie on edges
/// instead, x[t] += the table at ((line + 1/2) side / lines - 1/2, (col + 1/2) side / cols - 1/2), or its nearest
/// place.
///
/// Shapes    x [T, D] (rows may be strided): patches first .. first + T - 1 of the grid; table [side^2, D]
/// Types     f32
struct AddPositionsArgs {
  DeviceView<float> values;
  DeviceView<const float> table;
  int32_t side = 0;
  PatchGrid grid;
  int64_t first = 0;
  bool by_edges = false;
};
void add_positions(const AddPositionsArgs& args, Queue& queue);

/// The same, but the table is resized as an image of patches, by Pillow's bilinear filter: where the grid has fewer
/// lines or columns than the table, those in between are averaged. x[t] += the sum of wy[i] wx[j] table at (i, j), w as
/// TableWindow.
void add_mean_positions(const AddPositionsArgs& args, Queue& queue);

/// x[t] += table[col] + table[side + line], where (line, col) is the place of patch first + t.
///
/// Shapes    x [T, D] (rows may be strided): patches first .. first + T - 1 of the grid, which has at most `side` lines
///           and columns; table [2 side, D]
/// Types     f32
void add_axis_positions(const AddPositionsArgs& args, Queue& queue);

/// out[t] = cos and sin of every pair's angle, as rope_angles: the first half of the pairs turns with the line of patch
/// t, the second with its column; `cols_first`: the other way around. Pair i of either half turns by
/// base^(-2i / (rotated / 2)) per line or column; `alternates`: of the second half by base^(-(2i + 1) / (rotated / 2)),
/// as if both had the frequencies of one series in turn.
///
/// Shapes    out [patches of the grid, rotated]; rotated divisible by 4
/// Types     f32; computed in f64 and rounded once
struct GridAnglesArgs {
  PatchGrid grid;
  RopeParams params;  // the base and the rotated channels of a head are used
  bool cols_first = false, alternates = false;
  DeviceView<float> angles;
};
void grid_angles(const GridAnglesArgs& args, Queue& queue);

/// out[t] = the patches of the window of patch t.
///
/// Shapes    out [patches of the grid]; the grid has windows
struct ListWindowsArgs {
  PatchGrid grid;
  RowSpan* spans = nullptr;
};
void list_windows(const ListWindowsArgs& args, Queue& queue);

/// Two neighbouring lines or columns of a table of `side`, and the second's share.
struct TableStep {
  int32_t low, high;
  float share;

  /// `at`: a line or column of `count`.
  OCELLUS_EVERYWHERE static TableStep of(int32_t at, int32_t count, int32_t side, bool by_edges) {
    const auto last = static_cast<float>(side - 1), steps = static_cast<float>(count - 1);
    float place = count > 1 ? static_cast<float>(at) * last / steps : 0.0f;
    if (by_edges) {
      place = (static_cast<float>(at) + 0.5f) * static_cast<float>(side) / static_cast<float>(count) - 0.5f;
      place = place < 0 ? 0 : place > last ? last : place;
    }
    const auto low = static_cast<int32_t>(place);
    return {low, low + 1 < side ? low + 1 : low, place - static_cast<float>(low)};
  }
};

/// Lines or columns of a table of `side` that are averaged, with weights whose sum is 1.
struct TableWindow {
  picture::ResampleWindow window;
  double sum = 0;

  /// `at`: a line or column of `count`.
  OCELLUS_EVERYWHERE static TableWindow of(int32_t at, int32_t count, int32_t side) {
    TableWindow out{picture::resample_window(1.0, side, count, at)};
    for (int32_t i = 0; i < out.window.count; ++i) out.sum += out.value(i);
    return out;
  }
  /// Weight of line or column window.first + i.
  OCELLUS_EVERYWHERE float weight(int32_t i) const { return static_cast<float>(value(i) / sum); }

 private:
  OCELLUS_EVERYWHERE double value(int32_t i) const {
    return picture::filter_value(Filter::kBilinear, window.position(i));
  }
};

/// Returns the second half's turns as multiples of the first's.
inline double second_turn(const GridAnglesArgs& args) {
  return args.alternates ? std::pow(static_cast<double>(args.params.base), -2.0 / args.params.rotated) : 1.0;
}

/// Returns the parameters of either half's angles.
inline RopeParams half_rope(const RopeParams& params) {
  RopeParams half = params;
  half.rotated /= 2;
  return half;
}

OCELLUS_EVERYWHERE inline RowSpan window_span(const PatchGrid& grid, int32_t patch) {
  const PatchGrid::Window window = grid.window_of(patch / grid.block_patches());
  const int32_t begin = window.first * grid.block_patches();
  return {begin, begin + window.lines * window.cols * grid.block_patches()};
}

}  // namespace ocellus
