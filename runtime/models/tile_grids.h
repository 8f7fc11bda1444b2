// Grids of tiles, of which a picture gets the one nearest to its aspect.
#pragma once

#include <algorithm>

#include "mm/views/view_plan.h"

namespace ocellus {

/// Grids of `least` to `most` tiles, with sides of `side` pixels each.
struct TileGrids {
  int32_t least = 1;
  int32_t most = 1;
  int32_t side = 0;

  /// Calls visit(grid, in tiles) for every possible grid, in order of tile count.
  template <class Visit>
  void for_each(Visit visit) const {
    for (int32_t tiles = least; tiles <= most; ++tiles)
      for (int32_t cols = 1; cols <= tiles; ++cols)
        if (tiles % cols == 0) visit(Size{cols, tiles / cols});
  }
  /// OpenGVLab's dynamic_preprocess, as in transformers: the grid whose aspect is nearest to the picture's; of grids
  /// with equal aspect a larger one if the picture has more than half of its pixels.
  Size nearest(Size picture) const;
  /// Adds the grids of two tiles and more to the bounds: tiles, and what resizes to them take.
  void add_to(const ImageLimits& limits, ViewBounds* bounds) const;
};

}  // namespace ocellus
