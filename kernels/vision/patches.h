#pragma once

#include "kernels/base/patch_grid.h"
#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// Cuts a picture into patch rows, so that the patch embedding is a matrix product.
/// out[lead + i - first][(c * p + dy) * p + dx] = pixels[c][y * p + dy][x * p + dx], with (y, x) = grid.place(i)
/// The `lead` rows before a view's patches are zeros: room for rows that towers add.
///
/// Shapes    pixels [views, 3, height, width] f32 (a view of views * 3 * height rows, width cols), of which the grid's
///           patches are read; out [T, 3 * patch * patch]: rows first .. first + T - 1 of the
///           views * (lead + patches of the grid)
/// Types     out activations
struct CutPatchesArgs {
  DeviceView<const float> pixels;
  int32_t height = 0;
  PatchGrid grid;
  int32_t patch = 0;
  int32_t lead = 0;
  int64_t first = 0;
  ActivationView output;
};
void cut_patches(const CutPatchesArgs& args, Queue& queue);

/// Pixel shuffle: joins s x s neighbouring patch rows of a view into one wide row, without the `lead` rows before the
/// view's patches. s = 1 only drops these. Whatever the order of the patches, wide rows are line by line.
/// out[v * patches / s^2 + ty * (cols / s) + tx][(dy * s + dx) * D + c]
///     = x[v * (lead + patches) + lead + grid.index({ty * s + dy, tx * s + dx})][c]
///
/// Shapes    x [views * (lead + patches), D], patches = lines * cols of the grid, both divisible by s;
///           out [views * patches / s^2, s * s * D]
/// Types     x f32; out f32 or activations
/// Aliasing  none
struct JoinPatchesArgs {
  DeviceView<const float> input;
  int64_t views = 1;
  PatchGrid grid;
  int32_t scale = 1;
  int32_t lead = 0;
  ActivationView output;
};
void shuffle_pixels(const JoinPatchesArgs& args, Queue& queue);

/// The same values in the order of an unfolding (im2col): out[...][c * s^2 + dy * s + dx].
void unfold_patches(const JoinPatchesArgs& args, Queue& queue);

/// Average pooling: the mean of the same s x s rows, summed line by line in f32; out [views * patches / s^2, D] f32.
void average_patches(const JoinPatchesArgs& args, Queue& queue);

}  // namespace ocellus
