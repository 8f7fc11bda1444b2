// Times attention of many rows on a GPU, on the shapes of public models: images, prompts, and questions after a long
// past.
// attend_rows_bench [device]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kernels/attention/attend_rows.h"
#include "tools/bench/gpu_timing.h"

namespace {

using namespace ocellus;
using bench::Gpu;

constexpr int kLaunches = 12;
/// The past rotates through this many bytes of layers: more than the device's caches hold.
constexpr int64_t kPastBytes = int64_t{300} << 20;

struct Shape {
  const char* name;
  int32_t heads, kv_heads, dim;
  int64_t sequences, rows;
  bool causal;
  int32_t past;
  int32_t window = 0;  // rows back that a row sees, listed; 0: all
};

int64_t layer_count(const Shape& shape) {
  const int64_t bytes = std::max<int64_t>(1, int64_t{4} * shape.past * shape.kv_heads * shape.dim);
  return std::clamp<int64_t>(kPastBytes / bytes, 1, 64);
}

/// Tiles of all layers and heads in the runtime's layout.
const KvRun* past_tiles(const Shape& shape, Gpu& gpu) {
  const int64_t matrix = int64_t{2} * kTileSlots * shape.dim;
  const int64_t layer_bytes = 2 * shape.kv_heads * matrix;
  std::vector<KvRun> tiles;
  for (int32_t first = 0; first < shape.past; first += kTileSlots) {
    tiles.push_back({gpu.take<std::byte>(layer_count(shape) * layer_bytes), layer_bytes, 2 * matrix, matrix,
                     std::min(kTileSlots, shape.past - first), kTileSlots});
  }
  return tiles.empty() ? nullptr : gpu.upload(tiles);
}

const RowSpan* windows(const Shape& shape, Gpu& gpu) {
  std::vector<RowSpan> spans;
  for (int32_t row = 0; row < shape.rows; ++row) spans.push_back({std::max(0, row + 1 - shape.window), row + 1});
  return gpu.upload(spans);
}

/// Query, key and value of a row are adjacent for images, as in the vision tower.
AttendRowsArgs arguments(const Shape& shape, Gpu& gpu) {
  const int64_t width = int64_t{shape.heads} * shape.dim, kv_width = int64_t{shape.kv_heads} * shape.dim;
  const int64_t all_rows = shape.sequences * shape.rows;
  gpu.take_from_start();
  AttendRowsArgs args;
  args.past.runs = past_tiles(shape, gpu);
  args.past.count = divide_up(shape.past, kTileSlots);
  args.query_heads = shape.heads;
  args.row_count = shape.rows;
  args.bounds = shape.causal ? RowBounds::causal() : RowBounds::all();
  if (shape.window > 0) args.bounds = RowBounds::listed(windows(shape, gpu));
  args.sequences = shape.sequences;
  args.output = DeviceView<Half>(gpu.take<Half>(all_rows * width), all_rows, width);
  const int64_t stride = shape.causal ? width : width + 2 * kv_width;
  Half* const query = gpu.take<Half>(all_rows * stride);
  args.query = DeviceView<Half>(query, all_rows, width, stride);
  if (shape.causal) {
    args.rows = KvLayerRows::head_major(gpu.take<Half>(shape.rows * kv_width), gpu.take<Half>(shape.rows * kv_width),
                                        shape.kv_heads, shape.dim, shape.rows);
  } else {
    args.rows = {query + width, query + width + kv_width, shape.kv_heads, shape.dim, shape.rows, stride,
                 shape.dim,     shape.rows * stride};
  }
  const int64_t scratch_bytes = attend_rows_scratch_bytes(shape.dim, gpu.queue().traits());
  args.scratch = {gpu.take<std::byte>(scratch_bytes), 1, scratch_bytes};
  return args;
}

/// Calls go through the layers one after the other.
void time_shape(const Shape& shape, Gpu& gpu) {
  const int64_t calls = std::max<int64_t>(layer_count(shape), 12);
  AttendRowsArgs args = arguments(shape, gpu);
  const std::vector<double> times = bench::call_times(calls, kLaunches, gpu.queue(), [&](int64_t call) {
    args.past.layer.index = static_cast<int32_t>(call % layer_count(shape));
    attend_rows(args, gpu.queue());
  });
  const double us = times[times.size() / 2];
  const auto rows = static_cast<double>(shape.rows);
  const double window = std::min<double>(shape.window > 0 ? shape.window : rows, rows);
  const double seen = shape.causal ? window - window * (window - 1) / 2 / rows : rows;
  const double operations =
      4.0 * static_cast<double>(shape.sequences) * rows * (shape.past + seen) * shape.heads * shape.dim;
  std::printf("%-22s S %2lld  T %5lld  H %2d  G %2d  E %3d  past %5d  %8.2f us  %6.1f TFLOP/s  %7.1f GB/s of past\n",
              shape.name, static_cast<long long>(shape.sequences), static_cast<long long>(shape.rows), shape.heads,
              shape.kv_heads, shape.dim, shape.past, us, operations / us * 1e-6,
              4.0 * shape.past * shape.kv_heads * shape.dim / us * 1e-3);
}

}  // namespace

int main(int argc, char** argv) {
  Gpu gpu(argc > 1 ? std::atoi(argv[1]) : 0);
  gpu.fill_normal();
  std::printf("%s\n", gpu.name());
  const Shape shapes[] = {
      {"SmolVLM-256M vision", 12, 12, 64, 16, 1024, false, 0},
      {"SmolVLM-256M vision", 12, 12, 64, 1, 1024, false, 0},
      {"SmolVLM2-2.2B vision", 16, 16, 72, 13, 729, false, 0},
      {"2.2B prompt", 32, 32, 64, 1, 2048, true, 0},
      {"8B prompt", 32, 8, 128, 1, 2048, true, 0},
      {"8B prompt", 32, 8, 128, 1, 512, true, 0},
      {"8B prompt", 32, 8, 128, 1, 8192, true, 0},
      {"8B prompt", 32, 8, 128, 1, 32768, true, 0},
      {"8B chunk", 32, 8, 128, 1, 512, true, 7680},
      {"8B chunk", 32, 8, 128, 1, 2048, true, 6144},
      {"8B chunk", 32, 8, 128, 1, 2048, true, 30720},
      {"8B windows", 32, 8, 128, 1, 8192, true, 0, 1024},
      {"heads of 80", 32, 8, 80, 1, 4096, true, 0},
      {"heads of 96", 32, 8, 96, 1, 4096, true, 0},
      {"heads of 256", 8, 4, 256, 1, 4096, true, 0},
      {"heads of 256, windows", 8, 4, 256, 1, 4096, true, 0, 512},
      {"256M prompt", 9, 3, 64, 1, 256, true, 1024},
      {"256M question", 9, 3, 64, 1, 20, true, 1000},
      {"256M question", 9, 3, 64, 1, 20, true, 20000},
      {"2.2B question", 32, 32, 64, 1, 20, true, 1000},
      {"8B question", 32, 8, 128, 1, 40, true, 1000},
      {"8B question", 32, 8, 128, 1, 40, true, 16000},
  };
  for (const Shape& shape : shapes) time_shape(shape, gpu);
  return 0;
}
