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
  PixelMeaning meaning;
  const uint8_t* planes[kFramePlanes];
  int64_t strides[kFramePlanes];
  int32_t width;
};

/// One thread per pixel; grid.y is the row.
__global__ void convert_frame_rows(FrameRows frame, uint8_t* output, int64_t output_stride) {
  wait_for_inputs();
  let_next_start();
  const int32_t x = static_cast<int32_t>(blockIdx.x * kThreads + threadIdx.x);
  const int64_t y = blockIdx.y;
  if (x >= frame.width) return;
  uint8_t rgb[3];
  const int64_t half = chroma_row(frame.format, y);
  convert_pixel(frame.format, frame.meaning, frame.planes[0] + y * frame.strides[0],
                frame.planes[1] + half * frame.strides[1], frame.planes[2] + half * frame.strides[2], x, rgb);
  uint8_t* out = output + y * output_stride + int64_t{3} * x;
  for (int c = 0; c < 3; ++c) out[c] = rgb[c];
}

/// Destination of the kernels that write views: pixel (x, y) of view i, in planes.
struct ViewPlanes {
  Normalisation normalisation;
  float* pixels;
  int64_t stride;
  int32_t width, height;

  ViewPlanes(const Normalisation& normalisation_, const DeviceView<float>& view, int32_t height_)
      : normalisation(normalisation_),
        pixels(view.data),
        stride(view.stride),
        width(static_cast<int32_t>(view.cols)),
        height(height_) {}
  dim3 grid(int64_t view_rows) const {
    return dim3(blocks_for(int64_t{width} * height, kThreads),
                static_cast<unsigned>(view_rows / (int64_t{3} * height)));
  }
  __device__ void write(int64_t view, int32_t x, int32_t y, const uint8_t* rgb) const {
    float* out = pixels + (view * 3 * height + y) * stride + x;
    for (int c = 0; c < 3; ++c, out += height * stride)
      *out = normalise(rgb[c], normalisation.mean[c], normalisation.std[c]);
  }
};

/// Places of the tiles' pixels in an image; see NormaliseTilesArgs.
struct TiledImage {
  const uint8_t* data;
  int64_t stride;
  int32_t width, height, left, top, tile_cols, first_tile;
};

/// One thread per pixel; grid.y is the tile.
__global__ void normalise_pixels(TiledImage image, ViewPlanes planes) {
  wait_for_inputs();
  let_next_start();
  const int32_t index = static_cast<int32_t>(blockIdx.x * kThreads + threadIdx.x);
  if (index >= planes.width * planes.height) return;
  const int32_t x = index % planes.width, y = index / planes.width;
  const int32_t tile = image.first_tile + static_cast<int32_t>(blockIdx.y);
  const int32_t u = tile % image.tile_cols * planes.width + x - image.left;
  const int32_t v = tile / image.tile_cols * planes.height + y - image.top;
  const uint8_t black[3] = {};
  const bool inside = u >= 0 && u < image.width && v >= 0 && v < image.height;
  planes.write(blockIdx.y, x, y, inside ? image.data + v * image.stride + int64_t{3} * u : black);
}

/// A span for every output row or column, then the weights [capacity, output length].
struct ResampleTables {
  ResampleSpan* spans;
  int32_t* weights;
};

/// One warp per window. Filter values are added in the CPU's order, so that all lanes have the CPU's sum.
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
  int32_t rows;       // rows of the output
  int32_t cols;       // bytes for resample_rows, pixels for resample_columns
  int32_t colour[3];  // colour of the margins
};

constexpr int kRowsPerThread = 4;
constexpr int kColumnThreads = 64;

/// Along the rows: one thread per pixel of kRowsPerThread rows, so that a weight is read once for all of them.
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
                           {yuv_conversion(args.matrix, args.full_range), args.depth},
                           {args.planes[0].data, args.planes[1].data, args.planes[2].data},
                           {args.planes[0].stride, args.planes[1].stride, args.planes[2].stride},
                           width};
  launch<convert_frame_rows>(
      queue, "convert_pixels",
      {.grid = dim3(blocks_for(width, kThreads), static_cast<unsigned>(args.output.rows)), .threads = kThreads}, frame,
      args.output.data, args.output.stride);
}

void normalise_tiles(const NormaliseTilesArgs& args, Queue& queue) {
  const ViewPlanes planes(args.normalisation, args.pixels, args.height);
  const TiledImage image = {.data = args.image.data,
                            .stride = args.image.stride,
                            .width = static_cast<int32_t>(args.image.cols / 3),
                            .height = static_cast<int32_t>(args.image.rows),
                            .left = args.left,
                            .top = args.top,
                            .tile_cols = args.tile_cols,
                            .first_tile = args.first_tile};
  launch<normalise_pixels>(queue, "normalise_tiles", {.grid = planes.grid(args.pixels.rows), .threads = kThreads},
                           image, planes);
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
