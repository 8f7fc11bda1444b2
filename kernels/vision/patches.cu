#include "kernels/backends.h"
#include "kernels/base/launch.cuh"
#include "kernels/base/row_access.cuh"
#include "kernels/vision/patches.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int64_t kMaxPatchThreads = 512;
constexpr int kWideHalves = 8;
constexpr int kUnits = RowPieces::kUnitsPerThread;

/// One block per row; kWide divides the patch's side, so that a unit lies in one line of pixels.
template <int kWide>
__global__ void cut_rows(const float* pixels, int64_t pixel_stride, int height, PatchGrid grid, int patch, int lead,
                         int first, __half* output, int64_t output_stride) {
  const int view_rows = lead + grid.count();
  const int place = first + static_cast<int>(blockIdx.x);
  const int view = place / view_rows;
  const int index = place % view_rows - lead;
  const PatchGrid::Place at = grid.place(index < 0 ? 0 : index);
  const float* corner = pixels + (int64_t{view} * 3 * height + at.line * patch) * pixel_stride + at.col * patch;
  __half* out = output + blockIdx.x * output_stride;
  const int cols = 3 * patch * patch;
  wait_for_inputs();
  let_next_start();
  for (int col = static_cast<int>(threadIdx.x) * kWide; col < cols; col += static_cast<int>(blockDim.x) * kWide) {
    const int line = col / patch;
    const int channel = line / patch;
    const int64_t row = int64_t{channel} * height + (line - channel * patch);
    float values[kWide] = {};
    if (index >= 0) load_values(corner + row * pixel_stride + (col - line * patch), values);
    store_values(out + col, values);
  }
}

/// Copies one patch row of the input to its part of the wide row of its s x s square.
template <class Out, int kWide>
__global__ void join_rows(const float* input, int64_t input_stride, PatchGrid grid, int scale, int lead, int64_t cols,
                          Out* output, int64_t output_stride, unsigned pieces) {
  const RowPlace place(pieces);
  const int view = static_cast<int>(place.row) / grid.count();
  const PatchGrid::Place at = grid.place(static_cast<int>(place.row) % grid.count());
  input += (place.row + int64_t{view + 1} * lead) * input_stride;
  float values[kUnits][kWide];
  // Views are stacked, and their heights are multiples of `scale`: together they are one tall picture.
  const int line = view * grid.lines + at.line;
  output += (int64_t{line / scale} * (grid.cols / scale) + at.col / scale) * output_stride +
            (line % scale * scale + at.col % scale) * cols;
  wait_for_inputs();
  let_next_start();
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    const int64_t col = (place.first + i * place.step) * kWide;
    if (col < cols) load_values(input + col, values[i]);
  }
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    const int64_t col = (place.first + i * place.step) * kWide;
    if (col < cols) store_values(output + col, values[i]);
  }
}

/// One output row a block: a thread takes a value of each of its s x s patches.
template <class Out>
__global__ void unfold_rows(const float* input, int64_t input_stride, PatchGrid grid, int scale, int lead, int cols,
                            Out* output, int64_t output_stride) {
  const int joined = scale * scale, across = grid.cols / scale, cells = grid.count() / joined;
  const int cell = static_cast<int>(blockIdx.x) % cells, view = static_cast<int>(blockIdx.x) / cells;
  const int top = cell / across * scale, left = cell % across * scale;
  input += (int64_t{view} * (lead + grid.count()) + lead) * input_stride;
  output += blockIdx.x * output_stride;
  wait_for_inputs();
  let_next_start();
  for (int col = static_cast<int>(threadIdx.x); col < cols; col += static_cast<int>(blockDim.x))
    for (int i = 0; i < joined; ++i) {
      const float value[] = {input[grid.index({top + i / scale, left + i % scale}) * input_stride + col]};
      store_values(output + col * joined + i, value);
    }
}

/// One output row a block: the mean of its s x s patches.
__global__ void average_rows(const float* input, int64_t input_stride, PatchGrid grid, int scale, int lead, int cols,
                             float* output, int64_t output_stride) {
  const int across = grid.cols / scale, cells = grid.count() / (scale * scale);
  const int cell = static_cast<int>(blockIdx.x) % cells, view = static_cast<int>(blockIdx.x) / cells;
  const int top = cell / across * scale, left = cell % across * scale;
  input += (int64_t{view} * (lead + grid.count()) + lead) * input_stride;
  output += blockIdx.x * output_stride;
  wait_for_inputs();
  let_next_start();
  for (int col = static_cast<int>(threadIdx.x); col < cols; col += static_cast<int>(blockDim.x)) {
    float sum = 0;
    for (int i = 0; i < scale * scale; ++i)
      sum += input[grid.index({top + i / scale, left + i % scale}) * input_stride + col];
    output[col] = sum / static_cast<float>(scale * scale);
  }
}

template <int kWide>
void cut(const CutPatchesArgs& args, Queue& queue) {
  const int64_t units = divide_up(args.output.cols, kWide);
  const int64_t threads = std::min(kMaxPatchThreads, divide_up(units, kWarp) * kWarp);
  launch<cut_rows<kWide>>(queue, "cut_patches",
                          {.grid = static_cast<unsigned>(args.output.rows), .threads = static_cast<int>(threads)},
                          args.pixels.data, args.pixels.stride, args.height, args.grid, args.patch, args.lead,
                          static_cast<int>(args.first), half_data(args.output), args.output.stride);
}

template <class Out, int kWide>
void join(const JoinPatchesArgs& args, Queue& queue) {
  const RowPieces pieces(args.views * args.grid.count(), args.input.cols / kWide);
  launch<join_rows<Out, kWide>>(queue, "shuffle_pixels", {.grid = pieces.blocks, .threads = pieces.threads},
                                args.input.data, args.input.stride, args.grid, args.scale, args.lead, args.input.cols,
                                static_cast<Out*>(args.output.data), args.output.stride, pieces.per_row);
}

template <class Out>
void join_wide(const JoinPatchesArgs& args, Queue& queue) {
  if (args.input.cols % kWideHalves == 0 && takes_wide(args.input, kWideHalves) && takes_wide(args.output, kWideHalves))
    join<Out, kWideHalves>(args, queue);
  else
    join<Out, 1>(args, queue);
}

template <class Out>
void unfold(const JoinPatchesArgs& args, Queue& queue) {
  const int64_t threads = std::min(kMaxPatchThreads, divide_up(args.input.cols, kWarp) * kWarp);
  launch<unfold_rows<Out>>(queue, "unfold_patches",
                           {.grid = static_cast<unsigned>(args.output.rows), .threads = static_cast<int>(threads)},
                           args.input.data, args.input.stride, args.grid, args.scale, args.lead,
                           static_cast<int>(args.input.cols), static_cast<Out*>(args.output.data), args.output.stride);
}

}  // namespace

void cut_patches(const CutPatchesArgs& args, Queue& queue) {
  if (!is_half(args.output, "cut_patches", queue)) return;
  const auto fits = [&](int wide) {
    return args.patch % wide == 0 && takes_wide(args.pixels, wide) && takes_wide(args.output, wide);
  };
  if (fits(kWideHalves))
    cut<kWideHalves>(args, queue);
  else if (fits(2))
    cut<2>(args, queue);
  else
    cut<1>(args, queue);
}

void shuffle_pixels(const JoinPatchesArgs& args, Queue& queue) {
  if (args.output.type == ActivationType::kF16)
    join_wide<__half>(args, queue);
  else
    join_wide<float>(args, queue);
}

void unfold_patches(const JoinPatchesArgs& args, Queue& queue) {
  if (args.output.type == ActivationType::kF16)
    unfold<__half>(args, queue);
  else
    unfold<float>(args, queue);
}

void average_patches(const JoinPatchesArgs& args, Queue& queue) {
  const int64_t threads = std::min(kMaxPatchThreads, divide_up(args.input.cols, kWarp) * kWarp);
  launch<average_rows>(queue, "average_patches",
                       {.grid = static_cast<unsigned>(args.output.rows), .threads = static_cast<int>(threads)},
                       args.input.data, args.input.stride, args.grid, args.scale, args.lead,
                       static_cast<int>(args.input.cols), static_cast<float*>(args.output.data), args.output.stride);
}

}  // namespace cuda
}  // namespace ocellus
