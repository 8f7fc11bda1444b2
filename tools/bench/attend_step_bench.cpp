// Times decode attention on a GPU, on the shapes of the models we run, against the device's own copies.
// attend_step_bench [device]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/attend_step.h"
#include "platform/arena.h"
#include "platform/queue.h"
#include "quant/weight_format.h"

namespace {

using namespace ocellus;

constexpr int64_t kMemoryBytes = int64_t{1} << 30;
constexpr int64_t kStagingBytes = int64_t{16} << 20;
/// Calls go through this many bytes of cache before they come back to the first: much more than the device keeps.
constexpr int64_t kCacheBytes = int64_t{400} << 20;

struct Shape {
  const char* name;
  int32_t heads, kv_heads, dim;
  int64_t rows;
  int32_t slots;
};

/// Device memory, from the start again for every shape.
struct Memory {
  std::byte* data = nullptr;
  std::byte* staging = nullptr;
  int64_t used = 0;

  template <class T>
  T* take(int64_t count) {
    T* taken = reinterpret_cast<T*>(data + used);
    used += aligned_bytes(count * static_cast<int64_t>(sizeof(T)));
    if (used > kMemoryBytes) std::abort();
    return taken;
  }
};

/// Normal f16 values everywhere.
void fill(Memory& memory, Queue& queue) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  Half* halves = reinterpret_cast<Half*>(memory.staging);
  constexpr int64_t kDrawn = 1 << 18;
  for (int64_t i = 0; i < kDrawn; ++i) halves[i] = float_to_half(normal(random));
  for (int64_t i = kDrawn; i < kStagingBytes / 2; ++i) halves[i] = halves[i - kDrawn];
  for (int64_t at = 0; at < kMemoryBytes; at += kStagingBytes) queue.copy(memory.data + at, halves, kStagingBytes);
  queue.fail(queue.finish());
}

template <class T>
const T* upload(const std::vector<T>& values, Memory& memory, Queue& queue) {
  T* to = memory.take<T>(static_cast<int64_t>(values.size()));
  const int64_t bytes = static_cast<int64_t>(values.size() * sizeof(T));
  std::memcpy(memory.staging, values.data(), static_cast<size_t>(bytes));
  queue.copy(to, memory.staging, bytes);
  queue.fail(queue.finish());
  return to;
}

/// Pages of all layers and heads, as the runtime lays them out.
std::vector<KvRun> page_list(const Shape& shape, int64_t layers, int64_t tiles, Memory& memory) {
  const int64_t matrix = int64_t{2} * kTileSlots * shape.dim;
  const int64_t layer_bytes = 2 * shape.kv_heads * matrix;
  std::vector<KvRun> list;
  for (int64_t i = 0; i < shape.rows * tiles; ++i) {
    list.push_back(
        {memory.take<std::byte>(layers * layer_bytes), layer_bytes, 2 * matrix, matrix, kTileSlots, kTileSlots});
  }
  return list;
}

AttendStepArgs arguments(const Shape& shape, int64_t layers, Memory& memory, Queue& queue) {
  const int64_t tiles = (shape.slots + kTileSlots - 1) / kTileSlots;
  const int64_t width = int64_t{shape.heads} * shape.dim, kv_width = int64_t{shape.kv_heads} * shape.dim;
  std::vector<StepRow> steps(static_cast<size_t>(shape.rows));
  for (StepRow& step : steps) {
    step.active = 1;
    step.new_tile = static_cast<int32_t>(tiles - 1);
    step.new_slot = (shape.slots - 1) % kTileSlots;
  }
  memory.used = 0;
  const std::vector<float> turns(static_cast<size_t>(shape.rows * shape.dim), 0.70710678f);
  AttendStepArgs args;
  args.query = DeviceView<Half>(memory.take<Half>(shape.rows * width), shape.rows, width);
  args.key = DeviceView<Half>(memory.take<Half>(shape.rows * kv_width), shape.rows, kv_width);
  args.value = DeviceView<Half>(memory.take<Half>(shape.rows * kv_width), shape.rows, kv_width);
  args.output = DeviceView<Half>(memory.take<Half>(shape.rows * width), shape.rows, width);
  args.query_heads = shape.heads;
  args.kv_heads = shape.kv_heads;
  args.head_dim = shape.dim;
  args.rope.pairing = RopePairing::kHalves;
  args.rope.rotated = shape.dim;
  args.angles = {upload(turns, memory, queue), shape.rows, shape.dim};
  args.steps = upload(steps, memory, queue);
  args.tiles_per_row = args.most_tiles = tiles;
  const int64_t scratch_bytes =
      attend_step_scratch_bytes(shape.rows, shape.slots, tiles, shape.heads, shape.kv_heads, shape.dim, queue.traits());
  args.scratch = {memory.take<std::byte>(scratch_bytes), 1, scratch_bytes};
  queue.fail(queue.cuda()->fill(args.scratch.data, 0, scratch_bytes));
  args.tiles = upload(page_list(shape, layers, tiles, memory), memory, queue);
  return args;
}

/// Calls follow each other as in a decode step: recorded, one layer after the other.
void time_shape(const Shape& shape, double copy_rate, Memory& memory, Queue& queue) {
  CudaDevice& device = *queue.cuda();
  constexpr int kFirst = CudaDevice::kMarks - 2, kLast = CudaDevice::kMarks - 1;
  const double bytes = 4.0 * static_cast<double>(shape.rows) * shape.slots * shape.kv_heads * shape.dim;
  const int64_t layers = std::clamp<int64_t>(static_cast<int64_t>(static_cast<double>(kCacheBytes) / bytes), 2, 2048);
  const int64_t calls = std::max<int64_t>(layers, 16);
  AttendStepArgs args = arguments(shape, layers, memory, queue);
  CudaGraph graph;
  queue.fail(queue.begin_capture());
  for (int64_t i = 0; i < calls; ++i) {
    args.layer = static_cast<int32_t>(i % layers);
    attend_step(args, queue);
  }
  queue.fail(queue.end_capture(&graph));
  std::vector<double> times;
  for (int i = 0; i < 12; ++i) {
    queue.fail(device.record_mark(kFirst));
    queue.launch(graph);
    queue.fail(device.record_mark(kLast));
    if (!queue.finish().ok()) return;
    times.push_back(device.elapsed_ms(kFirst, kLast) * 1e3 / static_cast<double>(calls));
  }
  std::sort(times.begin(), times.end());
  const double us = times[times.size() / 2];
  std::printf("%-24s B %3lld  H %2d  G %2d  E %3d  slots %5d  %8.2f us  %7.1f GB/s  %5.1f%% of copy\n", shape.name,
              static_cast<long long>(shape.rows), shape.heads, shape.kv_heads, shape.dim, shape.slots, us,
              bytes / us * 1e-3, bytes / us * 1e6 / copy_rate * 100);
}

}  // namespace

int main(int argc, char** argv) {
  ThreadPool pool;
  std::unique_ptr<CudaDevice> device;
  Memory memory;
  double copy_rate = 0;
  if (!pool.start(1).ok() || !CudaDevice::open(argc > 1 ? std::atoi(argv[1]) : 0, nullptr, &device).ok() ||
      !device->allocate_device(kMemoryBytes, &memory.data).ok() ||
      !device->allocate_pinned(kStagingBytes, &memory.staging).ok() ||
      !device->measure_copy_rate(memory.data, kMemoryBytes, &copy_rate).ok()) {
    std::fprintf(stderr, "attend_step_bench: %s\n", last_failure().sentence);
    return 2;
  }
  Queue queue(pool);
  queue.use_cuda(device.get(), nullptr);
  fill(memory, queue);
  std::printf("%s, copy %.1f GB/s\n", device->facts().name, copy_rate * 1e-9);
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
  for (const Shape& shape : shapes) time_shape(shape, copy_rate, memory, queue);
  if (!queue.ok()) std::fprintf(stderr, "attend_step_bench: %s\n", last_failure().sentence);
  return queue.ok() ? 0 : 1;
}
