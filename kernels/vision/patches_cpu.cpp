#include <algorithm>

#include "kernels/backends.h"
#include "kernels/base/row_pieces.h"
#include "kernels/vision/patches.h"

namespace ocellus {

void cpu::cut_patches(const CutPatchesArgs& args, Queue& queue) {
  const int64_t patch = args.patch;
  const int64_t grid = args.side / patch;
  const int64_t grain = rows_per_piece(args.output.cols, 65536);
  queue.parallel(args.output.rows, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t view_rows = args.lead + grid * grid;
      const int64_t place = args.first + row;
      const int64_t cell = place % view_rows - args.lead;
      float* out = args.output.row(row);
      if (cell < 0) {
        std::fill_n(out, args.output.cols, 0.0f);
        continue;
      }
      const int64_t top = cell / grid * patch;
      const int64_t left = cell % grid * patch;
      const int64_t first_channel = place / view_rows * 3;
      for (int64_t channel = first_channel; channel < first_channel + 3; ++channel) {
        for (int64_t dy = 0; dy < patch; ++dy, out += patch) {
          std::copy_n(args.pixels.row(channel * args.side + top + dy) + left, patch, out);
        }
      }
    }
  });
}

void cpu::shuffle_pixels(const ShufflePixelsArgs& args, Queue& queue) {
  const int64_t scale = args.scale;
  const int64_t grid = args.grid;
  const int64_t small_grid = grid / scale;
  const int64_t width = args.input.cols;
  const int64_t grain = rows_per_piece(args.output.cols, 65536);
  queue.parallel(args.views * small_grid * small_grid, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t view = row / (small_grid * small_grid);
      const int64_t cell = row % (small_grid * small_grid);
      const int64_t top = cell / small_grid * scale;
      const int64_t left = cell % small_grid * scale;
      const int64_t first = view * (args.lead + grid * grid) + args.lead;
      float* out = args.output.row(row);
      for (int64_t dy = 0; dy < scale; ++dy) {
        for (int64_t dx = 0; dx < scale; ++dx, out += width) {
          std::copy_n(args.input.row(first + (top + dy) * grid + left + dx), width, out);
        }
      }
    }
  });
}

}  // namespace ocellus
