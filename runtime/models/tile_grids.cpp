#include "runtime/models/tile_grids.h"

#include <cmath>

#include "runtime/models/family.h"

namespace ocellus {
namespace {

/// Maximum rows of a picture that gets this grid. Its aspect is no further from the grid's than from that of the grid
/// with one column less, if there is one; else any aspect may get it.
int64_t most_rows(const TileGrids& grids, const ImageLimits& limits, Size grid) {
  if (grid.width == 1 || (grid.width - 1) * grid.height < grids.least) return limits.max_side;
  const double least_shape = (grid.width - 1.0) / grid.height;
  return std::min<int64_t>(limits.max_side,
                           static_cast<int64_t>(std::sqrt(static_cast<double>(limits.max_pixels) / least_shape)) + 1);
}

}  // namespace

Size TileGrids::nearest(Size picture) const {
  const double shape = static_cast<double>(picture.width) / picture.height;
  const double pixels = static_cast<double>(picture.width) * picture.height;
  const double tile_pixels = static_cast<double>(side) * side;
  Size best = {1, 1};
  double nearest = HUGE_VAL;
  for_each([&](Size grid) {
    const double difference = std::abs(shape - static_cast<double>(grid.width) / grid.height);
    const bool is_nearer = difference < nearest;
    if (!is_nearer && !(difference == nearest && pixels > 0.5 * tile_pixels * grid.width * grid.height)) return;
    nearest = difference;
    best = grid;
  });
  return best;
}

void TileGrids::add_to(const ImageLimits& limits, ViewBounds* bounds) const {
  int64_t longest = 0;
  for_each([&](Size grid) {
    const int32_t tiles = grid.width * grid.height;
    if (tiles == 1) return;
    bounds->stages = 2;
    bounds->tiles = std::max(bounds->tiles, tiles);
    bounds->tile_rows = std::max(bounds->tile_rows, grid.height);
    const int64_t width = int64_t{grid.width} * side, height = int64_t{grid.height} * side;
    bounds->stage_pixels = std::max({bounds->stage_pixels, width * height, width * most_rows(*this, limits, grid)});
    longest = std::max({longest, width, height});
  });
  if (bounds->tiles == 0) return;
  bounds->longest_side = std::max(bounds->longest_side, static_cast<int32_t>(longest));
  bounds->tiled_pixels = bounds->tiles * int64_t{side} * side;
  bounds->resize_bytes += resize_bound_bytes(longest_side(limits), side, longest);
}

}  // namespace ocellus
