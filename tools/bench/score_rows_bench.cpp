// Times how cache slots are chosen on a GPU, per layer: score_rows and select_slots, for DAVID's window of a tenth of
// the prompt and for the sums over all queries that H2O takes. score_rows_bench [device]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "kernels/score_rows.h"
#include "kernels/select_slots.h"
#include "platform/arena.h"
#include "platform/queue.h"
#include "quant/weight_format.h"

namespace {

using namespace ocellus;

constexpr int64_t kMemoryBytes = int64_t{256} << 20;
constexpr int64_t kStagingBytes = int64_t{16} << 20;

struct Shape {
  const char* name;
  int32_t heads, kv_heads, dim;
  int64_t rows, window, budget;
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
  template <class T>
  DeviceView<T> take_rows(int64_t rows, int64_t cols) {
    return {take<T>(rows * cols), rows, cols};
  }
};

/// Normal f16 values everywhere; as a mask of visual rows, most are.
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

ScoreRowsArgs scoring(const Shape& shape, Memory& memory, Queue& queue) {
  ScoreRowsArgs args;
  args.query = memory.take_rows<Half>(shape.window, int64_t{shape.heads} * shape.dim);
  args.query_heads = shape.heads;
  Half* const keys = memory.take<Half>(shape.rows * shape.kv_heads * shape.dim);
  args.rows = KvLayerRows::head_major(keys, nullptr, shape.kv_heads, shape.dim, shape.rows);
  args.row_count = shape.rows;
  args.scores = memory.take_rows<float>(shape.kv_heads, shape.rows);
  args.scratch = memory.take_rows<std::byte>(
      1, score_rows_scratch_bytes(shape.window, shape.rows, shape.heads, shape.dim, queue.traits()));
  return args;
}

SelectSlotsArgs selecting(const Shape& shape, const DeviceView<float>& scores, Memory& memory, Queue& queue) {
  SelectSlotsArgs args;
  args.scores = scores;
  args.row_count = shape.rows;
  args.is_visual = memory.take<uint8_t>(shape.rows);
  args.visual_count = shape.rows - 1;
  args.window = std::min(shape.window, shape.rows / 10);
  args.budget = shape.budget;
  args.visual_quota = shape.budget * 2 / 3;
  args.pool = 5;
  args.stage = SelectStage::kUntilSwitch;
  args.ncar = NcarSwitch::kAtLayer;  // the dearest: theta in every layer
  args.threshold = 1000;
  args.state = memory.take<NcarState>(1);
  args.is_split = true;
  args.kept_text = memory.take_rows<int32_t>(shape.kv_heads, shape.rows);
  args.kept_visual = memory.take_rows<int32_t>(shape.kv_heads, shape.rows);
  args.text_counts = memory.take<int32_t>(shape.kv_heads);
  args.visual_counts = memory.take<int32_t>(shape.kv_heads);
  args.scratch = memory.take_rows<std::byte>(1, select_slots_scratch_bytes(shape.rows, shape.kv_heads, queue.traits()));
  return args;
}

/// Median microseconds of a layer, of layers that follow each other without a pause.
template <class Layer>
double time_layers(Queue& queue, Layer layer) {
  constexpr int kLayers = 16, kTimes = 12;
  constexpr int kFirst = CudaDevice::kMarks - 2, kLast = CudaDevice::kMarks - 1;
  CudaDevice& device = *queue.cuda();
  CudaGraph graph;
  queue.fail(queue.begin_capture());
  for (int32_t i = 0; i < kLayers; ++i) layer(i);
  queue.fail(queue.end_capture(&graph));
  std::vector<double> times;
  for (int i = 0; i < kTimes; ++i) {
    queue.fail(device.record_mark(kFirst));
    queue.launch(graph);
    queue.fail(device.record_mark(kLast));
    if (!queue.finish().ok()) return 0;
    times.push_back(device.elapsed_ms(kFirst, kLast) * 1e3 / kLayers);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void time_shape(const Shape& shape, Memory& memory, Queue& queue) {
  memory.used = 0;
  const ScoreRowsArgs scores = scoring(shape, memory, queue);
  SelectSlotsArgs select = selecting(shape, scores.scores, memory, queue);
  const double score_us = time_layers(queue, [&](int32_t) { score_rows(scores, queue); });
  const double select_us = time_layers(queue, [&](int32_t layer) {
    select.layer = layer;
    select_slots(select, queue);
  });
  const double both_us = time_layers(queue, [&](int32_t layer) {
    select.layer = layer;
    score_rows(scores, queue);
    select_slots(select, queue);
  });
  std::printf(
      "%-18s n %5lld  r %5lld  H %2d  G %2d  E %3d  budget %4lld  score %8.2f us  select %7.2f us  both %8.2f us\n",
      shape.name, static_cast<long long>(shape.rows), static_cast<long long>(shape.window), shape.heads, shape.kv_heads,
      shape.dim, static_cast<long long>(shape.budget), score_us, select_us, both_us);
}

}  // namespace

int main(int argc, char** argv) {
  ThreadPool pool;
  std::unique_ptr<CudaDevice> device;
  Memory memory;
  if (!pool.start(1).ok() || !CudaDevice::open(argc > 1 ? std::atoi(argv[1]) : 0, nullptr, &device).ok() ||
      !device->allocate_device(kMemoryBytes, &memory.data).ok() ||
      !device->allocate_pinned(kStagingBytes, &memory.staging).ok()) {
    std::fprintf(stderr, "score_rows_bench: %s\n", last_failure().sentence);
    return 2;
  }
  Queue queue(pool);
  queue.use_cuda(device.get(), nullptr);
  fill(memory, queue);
  std::printf("%s\n", device->facts().name);
  const Shape shapes[] = {
      {"8B, DAVID", 32, 8, 128, 3400, 340, 340},
      {"8B, all queries", 32, 8, 128, 3400, 3400, 340},
      {"8B, SnapKV", 32, 8, 128, 3400, 32, 1024},
      {"256M, DAVID", 9, 3, 64, 1100, 110, 110},
  };
  for (const Shape& shape : shapes) time_shape(shape, memory, queue);
  if (!queue.ok()) std::fprintf(stderr, "score_rows_bench: %s\n", last_failure().sentence);
  return queue.ok() ? 0 : 1;
}
