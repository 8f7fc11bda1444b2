#pragma once

#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// Cuts a picture into patch rows, so that the patch embedding is a matrix product.
/// out[y * grid + x][(c * p + dy) * p + dx] = pixels[c][y * p + dy][x * p + dx]
///
/// Shapes    pixels [3, side, side] f32 (a view of 3 * side rows, side cols); grid = side / patch, remainder dropped;
///           out [grid * grid, 3 * patch * patch]
struct CutPatchesArgs {
  DeviceView<const float> pixels;
  int32_t side = 0;
  int32_t patch = 0;
  DeviceView<float> output;
};
void cut_patches(const CutPatchesArgs& args, Queue& queue);

/// Pixel shuffle of Idefics3: joins s x s neighbouring patch rows into one wide row.
/// out[ty * (grid / s) + tx][(dy * s + dx) * D + c] = x[(ty * s + dy) * grid + tx * s + dx][c]
///
/// Shapes    x [grid * grid, D]; grid divisible by s; out [(grid / s)^2, s * s * D]
/// Aliasing  none
struct ShufflePixelsArgs {
  DeviceView<const float> input;
  int32_t grid = 0;
  int32_t scale = 0;
  DeviceView<float> output;
};
void shuffle_pixels(const ShufflePixelsArgs& args, Queue& queue);

}  // namespace ocellus
