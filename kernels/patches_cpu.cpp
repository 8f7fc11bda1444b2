#include <algorithm>

#include "kernels/patches.h"
#include "kernels/row_pieces.h"

namespace ocellus {

void cut_patches(const CutPatchesArgs& args, Queue& queue) {
  const int64_t patch = args.patch;
  const int64_t grid = args.side / patch;
  queue.parallel(grid * grid, rows_per_piece(args.output.cols, 65536), [&](int64_t begin, int64_t end, int) {
    for (int64_t cell = begin; cell < end; ++cell) {
      const int64_t top = cell / grid * patch;
      const int64_t left = cell % grid * patch;
      float* out = args.output.row(cell);
      for (int64_t channel = 0; channel < 3; ++channel) {
        for (int64_t dy = 0; dy < patch; ++dy, out += patch) {
          std::copy_n(args.pixels.row(channel * args.side + top + dy) + left, patch, out);
        }
      }
    }
  });
}

void shuffle_pixels(const ShufflePixelsArgs& args, Queue& queue) {
  const int64_t scale = args.scale;
  const int64_t small_grid = args.grid / scale;
  const int64_t width = args.input.cols;
  queue.parallel(small_grid * small_grid, rows_per_piece(args.output.cols, 65536),
                 [&](int64_t begin, int64_t end, int) {
                   for (int64_t cell = begin; cell < end; ++cell) {
                     const int64_t top = cell / small_grid * scale;
                     const int64_t left = cell % small_grid * scale;
                     float* out = args.output.row(cell);
                     for (int64_t dy = 0; dy < scale; ++dy) {
                       for (int64_t dx = 0; dx < scale; ++dx, out += width) {
                         std::copy_n(args.input.row((top + dy) * args.grid + left + dx), width, out);
                       }
                     }
                   }
                 });
}

}  // namespace ocellus
