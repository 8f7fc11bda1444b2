// Times decode attention on a GPU, on the shapes of public models, against the device's own copies.
// attend_step_bench [device]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kernels/attention/attend_step.h"
#include "tools/bench/gpu_timing.h"

namespace {

using namespace ocellus;
using bench::Gpu;

constexpr int kLaunches = 12;
/// Calls rotate through this many bytes of cache: much more than the device's caches hold.
constexpr int64_t kCacheBytes = int64_t{400} << 20;

struct Shape {
  const char* name;
  int32_t heads, kv_heads, dim;
  int64_t rows;
  int32_t slots;
};

/// Pages of all layers and heads in the runtime's layout.
std::vector<KvRun> page_list(const Shape& shape, int64_t layers, int64_t tiles, Gpu& gpu) {
  const int64_t matrix = int64_t{2} * kTileSlots * shape.dim;
  const int64_t layer_bytes = 2 * shape.kv_heads * matrix;
  std::vector<KvRun> list;
  for (int64_t i = 0; i < shape.rows * tiles; ++i) {
    list.push_back(
        {gpu.take<std::byte>(layers * layer_bytes), layer_bytes, 2 * matrix, matrix, kTileSlots, kTileSlots});
  }
  return list;
}

AttendStepArgs arguments(const Shape& shape, int64_t layers, Gpu& gpu) {
  const int64_t tiles = (shape.slots + kTileSlots - 1) / kTileSlots;
  const int64_t width = int64_t{shape.heads} * shape.dim, kv_width = int64_t{shape.kv_heads} * shape.dim;
  std::vector<StepRow> steps(static_cast<size_t>(shape.rows));
  for (StepRow& step : steps) {
    step.active = 1;
    step.new_tile = static_cast<int32_t>(tiles - 1);
    step.new_slot = (shape.slots - 1) % kTileSlots;
  }
  gpu.take_from_start();
  const std::vector<float> turns(static_cast<size_t>(shape.rows * shape.dim), 0.70710678f);
  AttendStepArgs args;
  args.query = DeviceView<Half>(gpu.take<Half>(shape.rows * width), shape.rows, width);
  args.key = DeviceView<Half>(gpu.take<Half>(shape.rows * kv_width), shape.rows, kv_width);
  args.value = DeviceView<Half>(gpu.take<Half>(shape.rows * kv_width), shape.rows, kv_width);
  args.output = DeviceView<Half>(gpu.take<Half>(shape.rows * width), shape.rows, width);
  args.heads.query = shape.heads;
  args.heads.kv = shape.kv_heads;
  args.heads.dim = shape.dim;
  args.rope.pairing = RopePairing::kHalves;
  args.rope.rotated = shape.dim;
  args.angles = {gpu.upload(turns), shape.rows, shape.dim};
  args.tiles.steps = gpu.upload(steps);
  args.tiles.per_row = args.tiles.most = tiles;
  const int64_t scratch_bytes = attend_step_scratch_bytes(shape.rows, shape.slots, tiles, shape.heads, shape.kv_heads,
                                                          shape.dim, KvFormat::kF16, gpu.queue().traits());
  args.scratch = {gpu.take<std::byte>(scratch_bytes), 1, scratch_bytes};
  bench::require(gpu.queue().cuda()->fill(args.scratch.data, 0, scratch_bytes));
  args.tiles.runs = gpu.upload(page_list(shape, layers, tiles, gpu));
  return args;
}

/// Calls follow each other as in a decode step: recorded, one layer after the other.
void time_shape(const Shape& shape, double copy_rate, Gpu& gpu) {
  const double bytes = 4.0 * static_cast<double>(shape.rows) * shape.slots * shape.kv_heads * shape.dim;
  const int64_t layers = std::clamp<int64_t>(static_cast<int64_t>(static_cast<double>(kCacheBytes) / bytes), 2, 2048);
  const int64_t calls = std::max<int64_t>(layers, 16);
  AttendStepArgs args = arguments(shape, layers, gpu);
  const std::vector<double> times = bench::call_times(calls, kLaunches, gpu.queue(), [&](int64_t call) {
    args.layer.index = static_cast<int32_t>(call % layers);
    attend_step(args, gpu.queue());
  });
  const double us = times[times.size() / 2];
  std::printf("%-24s B %3lld  H %2d  G %2d  E %3d  slots %5d  %8.2f us  %7.1f GB/s  %5.1f%% of copy\n", shape.name,
              static_cast<long long>(shape.rows), shape.heads, shape.kv_heads, shape.dim, shape.slots, us,
              bytes / us * 1e-3, bytes / us * 1e6 / copy_rate * 100);
}

}  // namespace

int main(int argc, char** argv) {
  Gpu gpu(argc > 1 ? std::atoi(argv[1]) : 0);
  const double copy_rate = gpu.copy_rate();
  gpu.fill_normal();
  std::printf("%s, copy %.1f GB/s\n", gpu.name(), copy_rate * 1e-9);
  const Shape shapes[] = {
      {"8B, long", 32, 8, 128, 1, 32768},
      {"8B", 32, 8, 128, 1, 4096},
      {"8B", 32, 8, 128, 1, 1024},
      {"8B, sessions", 32, 8, 128, 16, 1024},
      {"8B, sessions", 32, 8, 128, 16, 2048},
      {"8B, sessions", 32, 8, 128, 17, 1536},
      {"8B, sessions", 32, 8, 128, 64, 512},
      {"LLaVA 7B", 32, 32, 128, 1, 700},
      {"2.2B", 32, 32, 64, 1, 300},
      {"2.2B", 32, 32, 64, 1, 700},
      {"2.2B", 32, 32, 64, 1, 1500},
      {"2.2B, sessions", 32, 32, 64, 8, 1000},
      {"Qwen2.5-1.5B", 12, 2, 128, 1, 1000},
      {"SmolVLM-256M", 9, 3, 64, 1, 100},
      {"SmolVLM-256M", 9, 3, 64, 1, 1100},
      {"SmolVLM-256M, sessions", 9, 3, 64, 16, 1100},
  };
  for (const Shape& shape : shapes) time_shape(shape, copy_rate, gpu);
  return 0;
}
