// Times attention of many rows on a GPU, on the shapes of the models we run: images, prompts, and questions after a
// long past. attend_rows_bench [device]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "kernels/attend_rows.h"
#include "platform/arena.h"
#include "platform/queue.h"
#include "quant/weight_format.h"

namespace {

using namespace ocellus;

constexpr int64_t kMemoryBytes = int64_t{1} << 30;
constexpr int64_t kStagingBytes = int64_t{16} << 20;
/// The past goes through this many bytes of layers before it comes back to the first: more than the device keeps.
constexpr int64_t kPastBytes = int64_t{300} << 20;

struct Shape {
  const char* name;
  int32_t heads, kv_heads, dim;
  int64_t sequences, rows;
  bool causal;
  int32_t past;
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
void fill(const Memory& memory, Queue& queue) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  Half* halves = reinterpret_cast<Half*>(memory.staging);
  constexpr int64_t kDrawn = (1 << 18) - 1;
  for (int64_t i = 0; i < kDrawn; ++i) halves[i] = float_to_half(normal(random));
  for (int64_t i = kDrawn; i < kStagingBytes / 2; ++i) halves[i] = halves[i - kDrawn];
  for (int64_t at = 0; at < kMemoryBytes; at += kStagingBytes) queue.copy(memory.data + at, halves, kStagingBytes);
  queue.fail(queue.finish());
}

int64_t layer_count(const Shape& shape) {
  const int64_t bytes = std::max<int64_t>(1, int64_t{4} * shape.past * shape.kv_heads * shape.dim);
  return std::clamp<int64_t>(kPastBytes / bytes, 1, 64);
}

/// Tiles of all layers and heads, as the runtime lays them out.
const KvRun* past_tiles(const Shape& shape, Memory& memory, Queue& queue) {
  const int64_t matrix = int64_t{2} * kTileSlots * shape.dim;
  const int64_t layer_bytes = 2 * shape.kv_heads * matrix;
  std::vector<KvRun> tiles;
  for (int32_t first = 0; first < shape.past; first += kTileSlots) {
    tiles.push_back({memory.take<std::byte>(layer_count(shape) * layer_bytes), layer_bytes, 2 * matrix, matrix,
                     std::min(kTileSlots, shape.past - first), kTileSlots});
  }
  if (tiles.empty()) return nullptr;
  const auto bytes = static_cast<int64_t>(tiles.size() * sizeof(KvRun));
  KvRun* to = memory.take<KvRun>(static_cast<int64_t>(tiles.size()));
  std::memcpy(memory.staging, tiles.data(), static_cast<size_t>(bytes));
  queue.copy(to, memory.staging, bytes);
  queue.fail(queue.finish());
  return to;
}

/// Images have query, key and value of a row side by side, as the vision tower does.
AttendRowsArgs arguments(const Shape& shape, Memory& memory, Queue& queue) {
  const int64_t width = int64_t{shape.heads} * shape.dim, kv_width = int64_t{shape.kv_heads} * shape.dim;
  const int64_t all_rows = shape.sequences * shape.rows;
  memory.used = 0;
  AttendRowsArgs args;
  args.runs = past_tiles(shape, memory, queue);
  args.run_count = (shape.past + kTileSlots - 1) / kTileSlots;
  args.query_heads = shape.heads;
  args.row_count = shape.rows;
  args.causal = shape.causal;
  args.sequences = shape.sequences;
  args.output = DeviceView<Half>(memory.take<Half>(all_rows * width), all_rows, width);
  const int64_t stride = shape.causal ? width : width + 2 * kv_width;
  Half* const query = memory.take<Half>(all_rows * stride);
  args.query = DeviceView<Half>(query, all_rows, width, stride);
  if (shape.causal) {
    args.rows =
        KvLayerRows::head_major(memory.take<Half>(shape.rows * kv_width), memory.take<Half>(shape.rows * kv_width),
                                shape.kv_heads, shape.dim, shape.rows);
  } else {
    args.rows = {query + width, query + width + kv_width, shape.kv_heads, shape.dim, shape.rows, stride,
                 shape.dim,     shape.rows * stride};
  }
  const int64_t scratch_bytes = attend_rows_scratch_bytes(shape.dim, queue.traits());
  args.scratch = {memory.take<std::byte>(scratch_bytes), 1, scratch_bytes};
  return args;
}

/// Calls follow each other without a pause, one layer after the other.
void time_shape(const Shape& shape, Memory& memory, Queue& queue) {
  CudaDevice& device = *queue.cuda();
  constexpr int kFirst = CudaDevice::kMarks - 2, kLast = CudaDevice::kMarks - 1;
  const int64_t calls = std::max<int64_t>(layer_count(shape), 12);
  AttendRowsArgs args = arguments(shape, memory, queue);
  CudaGraph graph;
  queue.fail(queue.begin_capture());
  for (int64_t i = 0; i < calls; ++i) {
    args.layer = static_cast<int32_t>(i % layer_count(shape));
    attend_rows(args, queue);
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
  const auto rows = static_cast<double>(shape.rows);
  const double seen = shape.causal ? (rows + 1) / 2 : rows;
  const double operations =
      4.0 * static_cast<double>(shape.sequences) * rows * (shape.past + seen) * shape.heads * shape.dim;
  std::printf("%-22s S %2lld  T %4lld  H %2d  G %2d  E %3d  past %5d  %8.2f us  %6.1f TFLOP/s  %7.1f GB/s of past\n",
              shape.name, static_cast<long long>(shape.sequences), static_cast<long long>(shape.rows), shape.heads,
              shape.kv_heads, shape.dim, shape.past, us, operations / us * 1e-6,
              4.0 * shape.past * shape.kv_heads * shape.dim / us * 1e-3);
}

}  // namespace

int main(int argc, char** argv) {
  ThreadPool pool;
  std::unique_ptr<CudaDevice> device;
  Memory memory;
  if (!pool.start(1).ok() || !CudaDevice::open(argc > 1 ? std::atoi(argv[1]) : 0, nullptr, &device).ok() ||
      !device->allocate_device(kMemoryBytes, &memory.data).ok() ||
      !device->allocate_pinned(kStagingBytes, &memory.staging).ok()) {
    std::fprintf(stderr, "attend_rows_bench: %s\n", last_failure().sentence);
    return 2;
  }
  Queue queue(pool);
  queue.use_cuda(device.get(), nullptr);
  fill(memory, queue);
  std::printf("%s\n", device->facts().name);
  const Shape shapes[] = {
      {"SmolVLM-256M vision", 12, 12, 64, 16, 1024, false, 0},
      {"SmolVLM-256M vision", 12, 12, 64, 1, 1024, false, 0},
      {"SmolVLM2-2.2B vision", 16, 16, 72, 13, 729, false, 0},
      {"2.2B prompt", 32, 32, 64, 1, 2048, true, 0},
      {"8B prompt", 32, 8, 128, 1, 2048, true, 0},
      {"8B prompt", 32, 8, 128, 1, 512, true, 0},
      {"256M prompt", 9, 3, 64, 1, 256, true, 1024},
      {"256M question", 9, 3, 64, 1, 20, true, 1000},
      {"256M question", 9, 3, 64, 1, 20, true, 20000},
      {"2.2B question", 32, 32, 64, 1, 20, true, 1000},
      {"8B question", 32, 8, 128, 1, 40, true, 1000},
      {"8B question", 32, 8, 128, 1, 40, true, 16000},
  };
  for (const Shape& shape : shapes) time_shape(shape, memory, queue);
  if (!queue.ok()) std::fprintf(stderr, "attend_rows_bench: %s\n", last_failure().sentence);
  return queue.ok() ? 0 : 1;
}
