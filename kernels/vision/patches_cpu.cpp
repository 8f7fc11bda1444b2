#include <algorithm>

#include "kernels/backends.h"
#include "kernels/base/row_pieces.h"
#include "kernels/vision/patches.h"

namespace ocellus {

void cpu::cut_patches(const CutPatchesArgs& args, Queue& queue) {
  const int64_t patch = args.patch, view_rows = args.lead + int64_t{args.grid.count()};
  const int64_t grain = rows_per_piece(args.output.cols, 65536);
  queue.parallel(args.output.rows, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t place = args.first + row, index = place % view_rows - args.lead;
      float* out = args.output.row(row);
      if (index < 0) {
        std::fill_n(out, args.output.cols, 0.0f);
        continue;
      }
      const PatchGrid::Place at = args.grid.place(static_cast<int32_t>(index));
      const int64_t first_channel = place / view_rows * 3;
      for (int64_t channel = first_channel; channel < first_channel + 3; ++channel)
        for (int64_t dy = 0; dy < patch; ++dy, out += patch)
          std::copy_n(args.pixels.row(channel * args.height + at.line * patch + dy) + at.col * patch, patch, out);
    }
  });
}

void cpu::shuffle_pixels(const ShufflePixelsArgs& args, Queue& queue) {
  const int32_t scale = args.scale, across = args.grid.cols / scale;
  const int64_t patches = args.grid.count(), cells = patches / (scale * scale), width = args.input.cols;
  const int64_t grain = rows_per_piece(args.output.cols, 65536);
  queue.parallel(args.views * cells, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const auto cell = static_cast<int32_t>(row % cells);
      const int32_t top = cell / across * scale, left = cell % across * scale;
      const int64_t first = row / cells * (args.lead + patches) + args.lead;
      float* out = args.output.row(row);
      for (int32_t dy = 0; dy < scale; ++dy)
        for (int32_t dx = 0; dx < scale; ++dx, out += width)
          std::copy_n(args.input.row(first + args.grid.index({top + dy, left + dx})), width, out);
    }
  });
}

}  // namespace ocellus
