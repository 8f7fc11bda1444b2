// PatchGrid: the order in which a tower takes the patches of a view.
#pragma once

#include <cstdint>

#include "platform/everywhere.h"

namespace ocellus {

/// Patches of a view. A projector joins blocks of merge x merge, and windows are squares of window x window blocks,
/// smaller at the right and lower edges. The order is window after window, in a window block after block, in a block
/// patch after patch, each line by line. merge = 1 without windows is the order of a picture's pixels.
struct PatchGrid {
  int32_t lines = 0;  // both multiples of `merge`
  int32_t cols = 0;
  int32_t merge = 1;
  int32_t window = 0;  // side in blocks; 0: no windows

  struct Place {
    int32_t line, col;
  };
  /// Blocks of a window; without windows, one line of blocks.
  struct Window {
    int32_t top, left, lines, cols, first;  // `first`: number of blocks before it
  };

  static constexpr PatchGrid square(int32_t side) { return {side, side}; }

  OCELLUS_EVERYWHERE int32_t count() const { return lines * cols; }
  OCELLUS_EVERYWHERE int32_t block_patches() const { return merge * merge; }
  /// Returns the place of patch `index`, 0 to count() - 1.
  OCELLUS_EVERYWHERE Place place(int32_t index) const {
    const int32_t block = index / block_patches(), inside = index % block_patches();
    const Window in = window_of(block);
    const int32_t at = block - in.first;
    return {(in.top + at / in.cols) * merge + inside / merge, (in.left + at % in.cols) * merge + inside % merge};
  }
  /// Returns the index of the patch at a place.
  OCELLUS_EVERYWHERE int32_t index(const Place& at) const {
    const int32_t line = at.line / merge, col = at.col / merge;
    const Window in = window_at(line / high() * high(), col / wide() * wide());
    const int32_t block = in.first + (line - in.top) * in.cols + col - in.left;
    return block * block_patches() + at.line % merge * merge + at.col % merge;
  }
  /// Returns the window of a block.
  OCELLUS_EVERYWHERE Window window_of(int32_t block) const {
    const int32_t top = block / (high() * across()) * high();
    const Window first = window_at(top, 0);
    return window_at(top, (block - first.first) / (first.lines * wide()) * wide());
  }

 private:
  OCELLUS_EVERYWHERE int32_t down() const { return lines / merge; }
  OCELLUS_EVERYWHERE int32_t across() const { return cols / merge; }
  OCELLUS_EVERYWHERE int32_t high() const { return window > 0 ? window : 1; }
  OCELLUS_EVERYWHERE int32_t wide() const { return window > 0 ? window : across(); }
  OCELLUS_EVERYWHERE Window window_at(int32_t top, int32_t left) const {
    const int32_t height = high() < down() - top ? high() : down() - top;
    const int32_t width = wide() < across() - left ? wide() : across() - left;
    return {top, left, height, width, top * across() + left * height};
  }
};

}  // namespace ocellus
