#include <climits>

#include "kernels/backends.h"
#include "kernels/base/device_math.cuh"
#include "kernels/base/launch.cuh"
#include "kernels/vision/resample_math.h"

namespace ocellus {
namespace cuda {
namespace {

using namespace picture;

constexpr int kThreads = 256;

unsigned blocks_for(int64_t count, int per_block) { return static_cast<unsigned>(divide_up(count, per_block)); }

struct FrameRows {
  PixelFormat format;
  YuvConversion conversion;
  const uint8_t* planes[kFramePlanes];
  int64_t strides[kFramePlanes];
  int32_t width;
};

/// One thread a pixel; grid.y is the row.
__global__ void convert_frame_rows(FrameRows frame, uint8_t* output, int64_t output_stride) {
  wait_for_inputs();
  let_next_start();
  const int32_t x = static_cast<int32_t>(blockIdx.x * kThreads + threadIdx.x);
  const int64_t y = blockIdx.y;
  if (x >= frame.width) return;
  uint8_t rgb[3];
  convert_pixel(frame.format, frame.conversion, frame.planes[0] + y * frame.strides[0],
                frame.planes[1] + y / 2 * frame.strides[1], frame.planes[2] + y / 2 * frame.strides[2], x, rgb);
  uint8_t* out = output + y * output_stride + int64_t{3} * x;
  for (int c = 0; c < 3; ++c) out[c] = rgb[c];
}

/// What the kernels that write views share: pixel (x, y) of view i, in planes.
struct ViewPlanes {
  Normalisation normalisation;
  float* pixels;
  int64_t stride;
  int32_t side;

  ViewPlanes(const Normalisation& normalisation_, const DeviceView<float>& view, int32_t side_)
      : normalisation(normalisation_), pixels(view.data), stride(view.stride), side(side_) {}
  dim3 grid(int64_t view_rows) const {
    return dim3(blocks_for(int64_t{side} * side, kThreads), static_cast<unsigned>(view_rows / (int64_t{3} * side)));
  }
  __device__ void write(int64_t view, int32_t x, int32_t y, const uint8_t* rgb) const {
    float* out = pixels + (view * 3 * side + y) * stride + x;
    for (int c = 0; c < 3; ++c, out += side * stride)
      *out = normalise(rgb[c], normalisation.mean[c], normalisation.std[c]);
  }
};

struct Stretch {
  PicturePixels source;
  int32_t tile_cols, tile_count, first_view;
  int32_t inner_width, inner_height, inner_left, inner_top;
  float corner_across, corner_down;  // source pixels a pixel of the overview
  float across, down;                // source pixels a pixel of the tiles
};

__device__ void stretch_linear(const Stretch& s, int32_t x, int32_t y, uint8_t* rgb) {
  const LinePosition column = split_position(times(static_cast<float>(x), s.corner_across), s.source.width - 1);
  const LinePosition line = split_position(times(static_cast<float>(y), s.corner_down), s.source.height - 1);
  const uint8_t* upper = s.source.row(line.at);
  const uint8_t* lower = s.source.row(clamp_to(line.at + 1, 0, s.source.height - 1));
  const int32_t left = 3 * column.at, right = 3 * clamp_to(column.at + 1, 0, s.source.width - 1);
  for (int c = 0; c < 3; ++c) {
    const float above = interpolate(upper[left + c], upper[right + c], column.t);
    const float below = interpolate(lower[left + c], lower[right + c], column.t);
    rgb[c] = static_cast<uint8_t>(interpolate(above, below, line.t));
  }
}

__device__ void stretch_cubic(const Stretch& s, int32_t x, int32_t y, uint8_t* rgb) {
  const LinePosition column = split_position(times(s.across, static_cast<float>(x)), INT_MAX);
  const LinePosition line = split_position(times(s.down, static_cast<float>(y)), INT_MAX);
  int32_t columns[4];
  float along[3][4];
#pragma unroll
  for (int i = 0; i < 4; ++i) columns[i] = 3 * clamp_to(column.at - 1 + i, 0, s.source.width - 1);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint8_t* row = s.source.row(clamp_to(line.at - 1 + i, 0, s.source.height - 1));
#pragma unroll
    for (int c = 0; c < 3; ++c)
      along[c][i] = interpolate_cubic_bytes(row[columns[0] + c], row[columns[1] + c], row[columns[2] + c],
                                            row[columns[3] + c], column.t);
  }
#pragma unroll
  for (int c = 0; c < 3; ++c)
    rgb[c] = round_to_byte(interpolate_cubic(along[c][0], along[c][1], along[c][2], along[c][3], line.t));
}

/// One thread a pixel; grid.y is the view.
__global__ void __launch_bounds__(kThreads) stretch_pixels(Stretch s, ViewPlanes planes) {
  wait_for_inputs();
  let_next_start();
  const int32_t index = static_cast<int32_t>(blockIdx.x * kThreads + threadIdx.x);
  if (index >= planes.side * planes.side) return;
  const int32_t x = index % planes.side, y = index / planes.side;
  const int32_t view = s.first_view + static_cast<int32_t>(blockIdx.y);
  uint8_t rgb[3] = {0, 0, 0};
  if (view == s.tile_count) {
    stretch_linear(s, x, y, rgb);
  } else {
    const int32_t inner_x = view % s.tile_cols * planes.side + x - s.inner_left;
    const int32_t inner_y = view / s.tile_cols * planes.side + y - s.inner_top;
    if (inner_x >= 0 && inner_x < s.inner_width && inner_y >= 0 && inner_y < s.inner_height)
      stretch_cubic(s, inner_x, inner_y, rgb);
  }
  planes.write(blockIdx.y, x, y, rgb);
}

/// One thread a pixel; grid.y is the tile.
__global__ void normalise_pixels(const uint8_t* picture, int64_t stride, int32_t tile_cols, int32_t first_tile,
                                 ViewPlanes planes) {
  wait_for_inputs();
  let_next_start();
  const int32_t index = static_cast<int32_t>(blockIdx.x * kThreads + threadIdx.x);
  if (index >= planes.side * planes.side) return;
  const int32_t x = index % planes.side, y = index / planes.side;
  const int32_t tile = first_tile + static_cast<int32_t>(blockIdx.y);
  const int64_t row = int64_t{tile / tile_cols} * planes.side + y;
  planes.write(blockIdx.y, x, y, picture + row * stride + int64_t{3} * (tile % tile_cols * planes.side + x));
}

/// A span for every output row or column, then the weights [capacity, output length].
struct ResampleTables {
  ResampleSpan* spans;
  int32_t* weights;
};

/// One warp a window. Filter values are added in the CPU's order, so that all lanes have the CPU's sum.
__global__ void make_tables(ResampleAxis axis, ResampleTables tables) {
  wait_for_inputs();
  let_next_start();
  const int32_t at = static_cast<int32_t>((blockIdx.x * kThreads + threadIdx.x) / kWarp);
  const int32_t lane = static_cast<int32_t>(threadIdx.x % kWarp);
  if (at >= axis.output) return;  // a whole warp
  const ResampleWindow window = resample_window(filter_radius(axis.filter), axis.length, axis.output, at);
  double sum = 0;
  for (int32_t base = 0; base < window.count; base += kWarp) {
    const double value = base + lane < window.count ? filter_value(axis.filter, window.position(base + lane)) : 0.0;
    for (int i = 0; i < kWarp; ++i) sum += __shfl_sync(0xFFFFFFFFu, value, i);
  }
  ResampleSpan span = span_inside(axis, window);
  for (int32_t i = lane; i < window.count; i += kWarp) {
    const int32_t weight = fixed_weight(filter_value(axis.filter, window.position(i)), sum);
    const int32_t place = window.first + i - axis.before - span.first;
    if (place >= 0 && place < span.count)
      tables.weights[int64_t{place} * axis.output + at] = weight;
    else
      span.outside += weight;
  }
  for (int step = kWarp / 2; step > 0; step /= 2) span.outside += __shfl_xor_sync(0xFFFFFFFFu, span.outside, step);
  if (lane == 0) tables.spans[at] = span;
}

struct Resample {
  const uint8_t* source;
  int64_t source_stride;
  uint8_t* output;
  int64_t output_stride;
  int32_t rows;       // of the output
  int32_t cols;       // bytes for resample_rows, pixels for resample_columns
  int32_t colour[3];  // of the margins
};

constexpr int kRowsPerThread = 4;
constexpr int kColumnThreads = 64;

/// Along the rows: one thread a pixel of kRowsPerThread rows, so that a weight is read once for all of them.
__global__ void __launch_bounds__(kColumnThreads) resample_columns(Resample r, ResampleTables tables) {
  wait_for_inputs();
  let_next_start();
  const int32_t x = static_cast<int32_t>(blockIdx.x * kColumnThreads + threadIdx.x);
  const int32_t first_row = static_cast<int32_t>(blockIdx.y * kRowsPerThread);
  if (x >= r.cols) return;
  const ResampleSpan span = tables.spans[x];
  const uint8_t* rows[kRowsPerThread];
  int32_t sums[kRowsPerThread][3];
#pragma unroll
  for (int k = 0; k < kRowsPerThread; ++k) {
    rows[k] = r.source + clamp_to(first_row + k, 0, r.rows - 1) * r.source_stride + int64_t{3} * span.first;
    for (int c = 0; c < 3; ++c) sums[k][c] = kWeightHalf + span.outside * r.colour[c];
  }
  for (int32_t i = 0; i < span.count; ++i) {
    const int32_t weight = tables.weights[int64_t{i} * r.cols + x];
#pragma unroll
    for (int k = 0; k < kRowsPerThread; ++k)
      for (int c = 0; c < 3; ++c) sums[k][c] += rows[k][3 * i + c] * weight;
  }
#pragma unroll
  for (int k = 0; k < kRowsPerThread; ++k) {
    if (first_row + k >= r.rows) return;
    uint8_t* out = r.output + (first_row + k) * r.output_stride + int64_t{3} * x;
    for (int c = 0; c < 3; ++c) out[c] = round_sum(sums[k][c]);
  }
}

constexpr int kBytesPerThread = 4;

/// Across the rows: one thread a few bytes of one row, kThreads apart; grid.y is the row.
__global__ void __launch_bounds__(kThreads) resample_rows(Resample r, ResampleTables tables) {
  wait_for_inputs();
  let_next_start();
  const int32_t first = static_cast<int32_t>(blockIdx.x * kThreads * kBytesPerThread + threadIdx.x);
  const int64_t y = blockIdx.y;
  const ResampleSpan span = tables.spans[y];
  int32_t sums[kBytesPerThread];
#pragma unroll
  for (int k = 0; k < kBytesPerThread; ++k) sums[k] = kWeightHalf + span.outside * r.colour[(first + k * kThreads) % 3];
  const uint8_t* row = r.source + span.first * r.source_stride;
  for (int32_t i = 0; i < span.count; ++i, row += r.source_stride) {
    const int32_t weight = tables.weights[int64_t{i} * r.rows + y];
#pragma unroll
    for (int k = 0; k < kBytesPerThread; ++k)
      if (first + k * kThreads < r.cols) sums[k] += row[first + k * kThreads] * weight;
  }
#pragma unroll
  for (int k = 0; k < kBytesPerThread; ++k)
    if (first + k * kThreads < r.cols) r.output[y * r.output_stride + first + k * kThreads] = round_sum(sums[k]);
}

}  // namespace

void convert_pixels(const ConvertPixelsArgs& args, Queue& queue) {
  const auto width = static_cast<int32_t>(args.output.cols / 3);
  const FrameRows frame = {args.format,
                           yuv_conversion(args.matrix, args.full_range),
                           {args.planes[0].data, args.planes[1].data, args.planes[2].data},
                           {args.planes[0].stride, args.planes[1].stride, args.planes[2].stride},
                           width};
  launch<convert_frame_rows>(
      queue, "convert_pixels",
      {.grid = dim3(blocks_for(width, kThreads), static_cast<unsigned>(args.output.rows)), .threads = kThreads}, frame,
      args.output.data, args.output.stride);
}

void stretch_views(const StretchViewsArgs& args, Queue& queue) {
  const auto width = static_cast<int32_t>(args.source.cols / 3), height = static_cast<int32_t>(args.source.rows);
  const Stretch stretch = {.source = {args.source.data, args.source.stride, width, height},
                           .tile_cols = args.tile_cols,
                           .tile_count = args.tile_rows * args.tile_cols,
                           .first_view = args.first_view,
                           .inner_width = args.inner_width,
                           .inner_height = args.inner_height,
                           .inner_left = args.inner_left,
                           .inner_top = args.inner_top,
                           .corner_across = corner_step(width, args.side),
                           .corner_down = corner_step(height, args.side),
                           .across = static_cast<float>(width) / static_cast<float>(args.inner_width),
                           .down = static_cast<float>(height) / static_cast<float>(args.inner_height)};
  const ViewPlanes planes(args.normalisation, args.pixels, args.side);
  launch<stretch_pixels>(queue, "stretch_views", {.grid = planes.grid(args.pixels.rows), .threads = kThreads}, stretch,
                         planes);
}

void normalise_tiles(const NormaliseTilesArgs& args, Queue& queue) {
  const ViewPlanes planes(args.normalisation, args.pixels, args.side);
  const auto tile_cols = static_cast<int32_t>(args.picture.cols / (int64_t{3} * args.side));
  launch<normalise_pixels>(queue, "normalise_tiles", {.grid = planes.grid(args.pixels.rows), .threads = kThreads},
                           args.picture.data, args.picture.stride, tile_cols, args.first_tile, planes);
}

void resample_picture(const ResamplePictureArgs& args, Queue& queue) {
  const ResampleAxis axis = resample_axis(args);
  auto* spans = reinterpret_cast<ResampleSpan*>(args.scratch.data);
  const ResampleTables tables = {spans, reinterpret_cast<int32_t*>(spans + axis.output)};
  launch<make_tables>(queue, "resample_picture",
                      {.grid = blocks_for(int64_t{axis.output} * kWarp, kThreads), .threads = kThreads}, axis, tables);
  const auto rows = static_cast<int32_t>(args.output.rows);
  const auto cols = static_cast<int32_t>(args.columns ? args.output.cols / 3 : args.output.cols);
  const uint8_t* colour = args.margins.colour;
  const Resample resample = {args.source.data,
                             args.source.stride,
                             args.output.data,
                             args.output.stride,
                             rows,
                             cols,
                             {colour[0], colour[1], colour[2]}};
  if (args.columns) {
    launch<resample_columns>(
        queue, "resample_picture",
        {.grid = dim3(blocks_for(cols, kColumnThreads), blocks_for(rows, kRowsPerThread)), .threads = kColumnThreads},
        resample, tables);
  } else {
    launch<resample_rows>(
        queue, "resample_picture",
        {.grid = dim3(blocks_for(cols, kThreads * kBytesPerThread), static_cast<unsigned>(rows)), .threads = kThreads},
        resample, tables);
  }
}

}  // namespace cuda
}  // namespace ocellus
