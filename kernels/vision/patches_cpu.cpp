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

namespace {

/// Calls add(row of patches, output row, its number among those that are joined) for all patches of all views.
template <class Add>
void for_each_joined(const JoinPatchesArgs& args, Queue& queue, Add add) {
  const int32_t scale = args.scale, across = args.grid.cols / scale, joined = scale * scale;
  const int64_t patches = args.grid.count(), cells = patches / joined;
  const int64_t grain = rows_per_piece(args.input.cols * joined, 65536);
  queue.parallel(args.views * cells, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const auto cell = static_cast<int32_t>(row % cells);
      const int32_t top = cell / across * scale, left = cell % across * scale;
      const int64_t first = row / cells * (args.lead + patches) + args.lead;
      for (int32_t i = 0; i < joined; ++i)
        add(args.input.row(first + args.grid.index({top + i / scale, left + i % scale})), args.output.row(row), i);
    }
  });
}

}  // namespace

void cpu::shuffle_pixels(const JoinPatchesArgs& args, Queue& queue) {
  const int64_t width = args.input.cols;
  for_each_joined(args, queue,
                  [&](const float* patch, float* out, int32_t i) { std::copy_n(patch, width, out + i * width); });
}

void cpu::unfold_patches(const JoinPatchesArgs& args, Queue& queue) {
  const int64_t width = args.input.cols;
  const int32_t joined = args.scale * args.scale;
  for_each_joined(args, queue, [&](const float* patch, float* out, int32_t i) {
    for (int64_t col = 0; col < width; ++col) out[col * joined + i] = patch[col];
  });
}

void cpu::average_patches(const JoinPatchesArgs& args, Queue& queue) {
  const int64_t width = args.input.cols;
  const int32_t joined = args.scale * args.scale;
  for_each_joined(args, queue, [&](const float* patch, float* out, int32_t i) {
    for (int64_t col = 0; col < width; ++col) {
      const float sum = i == 0 ? patch[col] : out[col] + patch[col];
      out[col] = i + 1 == joined ? sum / static_cast<float>(joined) : sum;
    }
  });
}

}  // namespace ocellus
