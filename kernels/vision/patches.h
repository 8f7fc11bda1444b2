#pragma once

#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// Cuts a picture into patch rows, so that the patch embedding is a matrix product.
/// out[lead + y * grid + x - first][(c * p + dy) * p + dx] = pixels[c][y * p + dy][x * p + dx]
/// The `lead` rows before a view's patches are zeros: room for rows that towers add.
///
/// Shapes    pixels [views, 3, side, side] f32 (a view of views * 3 * side rows, side cols); grid = side / patch,
///           remainder dropped; out [T, 3 * patch * patch]: rows first .. first + T - 1 of the
///           views * (lead + grid * grid)
/// Types     out activations
struct CutPatchesArgs {
  DeviceView<const float> pixels;
  int32_t side = 0;
  int32_t patch = 0;
  int32_t lead = 0;
  int64_t first = 0;
  ActivationView output;
};
void cut_patches(const CutPatchesArgs& args, Queue& queue);

/// Pixel shuffle: joins s x s neighbouring patch rows of a view into one wide row, without the `lead` rows before the
/// view's patches. s = 1 only drops these.
/// out[v * (grid / s)^2 + ty * (grid / s) + tx][(dy * s + dx) * D + c]
///     = x[v * (lead + grid^2) + lead + (ty * s + dy) * grid + tx * s + dx][c]
///
/// Shapes    x [views * (lead + grid * grid), D]; grid divisible by s; out [views * (grid / s)^2, s * s * D]
/// Types     x f32; out f32 or activations
/// Aliasing  none
struct ShufflePixelsArgs {
  DeviceView<const float> input;
  int64_t views = 1;
  int32_t grid = 0;
  int32_t scale = 1;
  int32_t lead = 0;
  ActivationView output;
};
void shuffle_pixels(const ShufflePixelsArgs& args, Queue& queue);

}  // namespace ocellus
