// Speed of the weight products of a decode step on a GPU, for the layers of two models.
//
//   decode_kernels_bench
//
// Each line: one product (or all four of a layer) in one format with one number of rows; microseconds, weight bytes per
// second, their share of the measured copy rate, and the plan (kernels/linear/few_rows/plan.h). Calls are
// recorded as one graph, as a decode step is, and rotate through weights that exceed the level-2 cache.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "kernels/linear/fill_weights.h"
#include "kernels/linear/matmul_few_rows.h"
#include "kernels/linear/matmul_library.h"
#include "kernels/linear/norm_matmul.h"
#include "platform/device.h"
#include "platform/queue.h"
#include "tools/bench/gpu_timing.h"

namespace {

using namespace ocellus;
using bench::require;

constexpr int64_t kPoolBytes = 900 << 20;  // pool of weights
constexpr int64_t kRowsBytes = 128 << 20;  // everything else
constexpr int64_t kBytesPerGraph = 400 << 20;
constexpr int kLaunches = 4;  // the first warms up, the minimum counts
constexpr int64_t kInputRows[] = {1, 2, 4, 8, 16, 32, 64};
constexpr int64_t kMaxInputRows = 64;

struct Layer {
  const char* name;
  int64_t width, hidden, queries, keys, vocabulary;  // D, F, H E, G E, V
};
constexpr Layer kLayers[] = {{"2.2B", 2048, 8192, 2048, 2048, 49280}, {"8B", 4096, 14336, 4096, 1024, 92544}};

constexpr int64_t kCols = 4096;
void fill_random(void* data, WeightFormat format, int64_t rows, float deviation, Queue& queue) {
  fill_weights({.data = static_cast<uint8_t*>(data),
                .format = format,
                .rows = rows,
                .cols = kCols,
                .deviation = deviation,
                .seed = 1},
               queue);
}

/// Hands out weights of the pool one after the other, and wraps around at its end.
class Pool {
 public:
  Pool(std::byte* data, WeightFormat format)
      : data_(reinterpret_cast<uint8_t*>(data)), format_(format), unit_(row_bytes(format, kCols)) {}
  void fill(Queue& queue) const { fill_random(data_, format_, kPoolBytes / unit_, 0.02f, queue); }
  WeightView take(int64_t rows, int64_t cols) {
    WeightView weights{data_ + at_, format_, rows, cols};
    const int64_t bytes = (weights.bytes() + unit_ - 1) / unit_ * unit_;  // whole blocks, and aligned
    if (at_ + bytes > kPoolBytes / unit_ * unit_) {
      at_ = 0;
      weights.data = data_;
    }
    at_ += bytes;
    return weights;
  }

 private:
  uint8_t* data_;
  WeightFormat format_;
  int64_t unit_;
  int64_t at_ = 0;
};

/// Input and output rows of the products.
struct Rows {
  Rows(std::byte* memory, const Layer& layer_, int64_t rows_, const DeviceTraits& traits)
      : layer(layer_), rows(rows_), next(memory) {
    residual = {take<float>(layer.width), rows, layer.width};
    normed = halves(layer.width);
    query = halves(layer.queries);
    key = halves(layer.keys);
    value = halves(layer.keys);
    mixed = halves(layer.queries);
    gate = halves(layer.hidden);
    up = halves(layer.hidden);
    logits = {take<float>(layer.vocabulary), rows, layer.vocabulary};
    norm_weight = take<float>(layer.width);  // with room to spare
    const int64_t outputs = std::max(layer.vocabulary, layer.hidden);
    const int64_t bytes = matmul_scratch_bytes(rows, std::max(layer.width, layer.hidden), outputs, traits);
    scratch = {take_bytes(bytes), 1, bytes};
  }
  template <class T>
  T* take(int64_t cols) {
    return reinterpret_cast<T*>(take_bytes(kMaxInputRows * cols * static_cast<int64_t>(sizeof(T))));
  }
  std::byte* take_bytes(int64_t bytes) {
    std::byte* const here = next;
    next += (bytes + 255) / 256 * 256;
    return here;
  }
  ActivationView halves(int64_t cols) { return DeviceView<Half>{take<Half>(cols), rows, cols}; }

  const Layer& layer;
  int64_t rows;
  std::byte* next;
  DeviceView<float> residual, logits;
  ActivationView normed, query, key, value, mixed, gate, up;
  float* norm_weight;
  DeviceView<std::byte> scratch;
};

enum class Part { kQueryKeyValue, kOutput, kGateUp, kDown, kLayer, kLogits };
constexpr const char* kPartNames[] = {"norm, qkv", "output", "norm, gated", "down", "layer", "logits"};

/// Enqueues the part and returns the bytes of its weights.
int64_t enqueue(Part part, Rows& r, Pool& pool, Queue& queue) {
  const Layer& layer = r.layer;
  int64_t bytes = 0;
  const auto take = [&](int64_t rows, int64_t cols) {
    const WeightView weights = pool.take(rows, cols);
    bytes += weights.bytes();
    return weights;
  };
  const bool all = part == Part::kLayer;
  if (all || part == Part::kQueryKeyValue)
    norm_matmul(
        {.input = r.residual,
         .norm_weight = r.norm_weight,
         .epsilon = 1e-5f,
         .normed = r.normed,
         .count = 3,
         .weights = {take(layer.queries, layer.width), take(layer.keys, layer.width), take(layer.keys, layer.width)},
         .outputs = {r.query, r.key, r.value},
         .scratch = r.scratch},
        queue);
  if (all || part == Part::kOutput)
    matmul({.input = r.mixed,
            .weights = {take(layer.width, layer.queries)},
            .outputs = {r.residual},
            .accumulate = true,
            .scratch = r.scratch},
           queue);
  if (all || part == Part::kGateUp)
    gated_matmul({.input = r.residual,
                  .norm_weight = r.norm_weight,
                  .epsilon = 1e-5f,
                  .normed = r.normed,
                  .gate_weight = take(layer.hidden, layer.width),
                  .up_weight = take(layer.hidden, layer.width),
                  .gate = r.gate,
                  .up = r.up,
                  .scratch = r.scratch},
                 queue);
  if (all || part == Part::kDown)
    matmul({.input = r.gate,
            .weights = {take(layer.width, layer.hidden)},
            .outputs = {r.residual},
            .accumulate = true,
            .scratch = r.scratch},
           queue);
  if (part == Part::kLogits)
    matmul({.input = r.normed,
            .weights = {take(layer.vocabulary, layer.width)},
            .outputs = {r.logits},
            .scratch = r.scratch},
           queue);
  return bytes;
}

/// Returns the plan of the part's product; an empty text if there are several.
const char* plan_of(Part part, const Rows& r, WeightFormat format, const CudaFacts& facts) {
  if (part == Part::kLayer) return "";
  const bool down = part == Part::kDown;
  const WeightView weights{nullptr, format, r.layer.width, down ? r.layer.hidden : r.layer.width};
  return cuda::few_rows_fits(r.rows, &weights, 1, false, {}) ? cuda::few_rows_plan_name(r.rows, weights, facts)
                                                             : "library";
}

void measure(Part part, Rows& rows, WeightFormat format, Pool& pool, double copy_rate, Queue& queue) {
  const int64_t once = enqueue(part, rows, pool, queue);  // lets the library choose its algorithms
  require(queue.finish());
  const int64_t calls = std::clamp<int64_t>(kBytesPerGraph / once, 4, 64);
  int64_t bytes = 0;
  const std::vector<double> times =
      bench::call_times(calls, kLaunches, queue, [&](int64_t) { bytes += enqueue(part, rows, pool, queue); });
  const double us = times.front(), rate = static_cast<double>(bytes) / static_cast<double>(calls) / (us * 1e-6);
  std::printf("%-5s %-5s T %2lld  %-12s %9.2f us  %7.1f GB/s  %5.1f %%  %s\n", rows.layer.name,
              format_info(format).name, static_cast<long long>(rows.rows), kPartNames[static_cast<int>(part)], us,
              rate * 1e-9, 100 * rate / copy_rate, plan_of(part, rows, format, queue.cuda()->facts()));
}

}  // namespace

int main() {
  if (cuda_device_count() == 0) {
    std::fprintf(stderr, "no GPU\n");
    return 2;
  }
  ThreadPool threads;
  Queue queue(threads);
  std::unique_ptr<CudaDevice> device;
  std::unique_ptr<MatmulLibrary> library;
  std::byte *weights = nullptr, *memory = nullptr;
  require(threads.start(1));
  require(CudaDevice::open(0, nullptr, &device));
  require(MatmulLibrary::create(*device, &library));
  queue.use_cuda(device.get(), library.get());
  require(device->allocate_device(kPoolBytes, &weights));
  require(device->allocate_device(kRowsBytes, &memory));
  double copy_rate = 0;
  require(device->measure_copy_rate(weights, kPoolBytes, &copy_rate));
  std::printf("%s, copies at %.1f GB/s\n", device->facts().name, copy_rate * 1e-9);
  for (const WeightFormat format : {WeightFormat::kF16, WeightFormat::kQ8_0, WeightFormat::kQ4_K}) {
    Pool pool(weights, format);
    pool.fill(queue);
    for (const Layer& layer : kLayers)
      for (const int64_t input_rows : kInputRows) {
        Rows rows(memory, layer, input_rows, queue.traits());
        if (rows.next - memory > kRowsBytes) return 1;
        fill_random(memory, WeightFormat::kF16, (rows.scratch.data - memory) / 2 / kCols, 1.0f, queue);
        fill_random(rows.residual.data, WeightFormat::kF32, (kMaxInputRows * layer.width) / kCols, 1.0f, queue);
        fill_random(rows.norm_weight, WeightFormat::kF32, layer.width / 1024, 1.0f, queue);
        for (int part = 0; part <= static_cast<int>(Part::kLogits); ++part)
          measure(static_cast<Part>(part), rows, format, pool, copy_rate, queue);
      }
  }
  return 0;
}
