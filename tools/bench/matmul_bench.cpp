// Speed of the matrix product on the CPU, on shapes of the bundled model and of a 2.2B one.
//
//   matmul_bench [THREADS] [SECONDS PER ROW] [f16|bf16]
//
// With the last only rows of half-precision weights, which that arithmetic changes, and of F32.
//
// Each row reports the best of many calls: products and sums per second, and bytes of weights read per second.
// Weights rotate through copies that together exceed the private caches, as the layers of a model do.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/linear/fill_weights.h"
#include "kernels/linear/matmul.h"
#include "platform/clock.h"
#include "quant/block_codes.h"

namespace {

using namespace ocellus;

struct Shape {
  const char* name;
  WeightFormat format;
  int64_t rows, cols;
  int64_t outputs[3];
};

constexpr Shape kShapes[] = {
    {"query, key, value", WeightFormat::kQ8_0, 1, 512, {512, 256, 256}},
    {"attention output", WeightFormat::kQ8_0, 1, 512, {512}},
    {"gate, up", WeightFormat::kQ8_0, 1, 512, {1280, 1280}},
    {"down", WeightFormat::kQ8_0, 1, 1280, {512}},
    {"vocabulary", WeightFormat::kQ8_0, 1, 512, {1024}},
    {"gate, up", WeightFormat::kQ8_0, 2, 512, {1280, 1280}},
    {"gate, up", WeightFormat::kQ8_0, 3, 512, {1280, 1280}},
    {"gate, up", WeightFormat::kQ8_0, 4, 512, {1280, 1280}},
    {"gate, up", WeightFormat::kQ8_0, 8, 512, {1280, 1280}},
    {"gate, up", WeightFormat::kQ8_0, 64, 512, {1280, 1280}},
    {"query, key, value", WeightFormat::kQ8_0, 512, 512, {512, 256, 256}},
    {"attention output", WeightFormat::kQ8_0, 512, 512, {512}},
    {"gate, up", WeightFormat::kQ8_0, 512, 512, {1280, 1280}},
    {"down", WeightFormat::kQ8_0, 512, 1280, {512}},
    {"vision attention", WeightFormat::kQ8_0, 256, 384, {384, 384, 384}},
    {"vision up", WeightFormat::kQ8_0, 256, 384, {1536}},
    {"vision down", WeightFormat::kQ8_0, 256, 1536, {384}},
    {"gate, up", WeightFormat::kF16, 1, 512, {1280, 1280}},
    {"gate, up", WeightFormat::kF16, 2, 512, {1280, 1280}},
    {"gate, up", WeightFormat::kF16, 4, 512, {1280, 1280}},
    {"gate, up", WeightFormat::kF16, 512, 512, {1280, 1280}},
    {"vision up", WeightFormat::kF16, 256, 384, {1536}},
    {"vision down", WeightFormat::kF16, 256, 1536, {384}},
    {"gate, up", WeightFormat::kF32, 1, 512, {1280, 1280}},
    {"gate, up", WeightFormat::kF32, 512, 512, {1280, 1280}},
    {"2.2B: up", WeightFormat::kF16, 1, 2048, {8192}},
    {"2.2B: up", WeightFormat::kBF16, 1, 2048, {8192}},
    {"2.2B: up", WeightFormat::kQ8_0, 1, 2048, {8192}},
    {"2.2B: up", WeightFormat::kQ4_0, 1, 2048, {8192}},
    {"2.2B: up", WeightFormat::kQ4_1, 1, 2048, {8192}},
    {"2.2B: up", WeightFormat::kQ5_0, 1, 2048, {8192}},
    {"2.2B: up", WeightFormat::kQ5_1, 1, 2048, {8192}},
    {"2.2B: up", WeightFormat::kQ4_K, 1, 2048, {8192}},
    {"2.2B: up", WeightFormat::kQ5_K, 1, 2048, {8192}},
    {"2.2B: up", WeightFormat::kQ6_K, 1, 2048, {8192}},
    {"2.2B: up", WeightFormat::kIQ4_NL, 1, 2048, {8192}},
    {"2.2B: up", WeightFormat::kQ2_K, 1, 2048, {8192}},
    {"2.2B: up", WeightFormat::kQ3_K, 1, 2048, {8192}},
    {"2.2B: up", WeightFormat::kIQ4_XS, 1, 2048, {8192}},
    {"2.2B: up", WeightFormat::kMXFP4, 1, 2048, {8192}},
    {"2.2B: up", WeightFormat::kQ8_0, 2, 2048, {8192}},
    {"2.2B: up", WeightFormat::kQ8_0, 4, 2048, {8192}},
    {"2.2B: up", WeightFormat::kQ8_0, 8, 2048, {8192}},
    {"2.2B: up", WeightFormat::kQ8_0, 16, 2048, {8192}},
    {"2.2B: up", WeightFormat::kQ4_K, 2, 2048, {8192}},
    {"2.2B: up", WeightFormat::kQ4_K, 4, 2048, {8192}},
    {"2.2B: up", WeightFormat::kQ4_K, 8, 2048, {8192}},
    {"2.2B: up", WeightFormat::kQ4_K, 16, 2048, {8192}},
    {"2.2B: up", WeightFormat::kF16, 8, 2048, {8192}},
    {"2.2B: up", WeightFormat::kF16, 16, 2048, {8192}},
    {"2.2B: up", WeightFormat::kF16, 32, 2048, {8192}},
    {"2.2B: up", WeightFormat::kF16, 128, 2048, {8192}},
    {"2.2B: down", WeightFormat::kF16, 128, 8192, {2048}},
    {"2.2B: up", WeightFormat::kBF16, 128, 2048, {8192}},
    {"2.2B: up", WeightFormat::kF32, 8, 2048, {8192}},
    {"2.2B: up", WeightFormat::kF32, 128, 2048, {8192}},
    {"2.2B: up", WeightFormat::kF16, 512, 2048, {8192}},
    {"2.2B: up", WeightFormat::kQ8_0, 512, 2048, {8192}},
    {"2.2B: up", WeightFormat::kQ4_0, 512, 2048, {8192}},
    {"2.2B: up", WeightFormat::kQ4_K, 512, 2048, {8192}},
    {"2.2B: up", WeightFormat::kQ6_K, 512, 2048, {8192}},
};

void measure(const Shape& shape, double seconds, Queue& queue) {
  int64_t total_outputs = 0;
  for (const int64_t outputs : shape.outputs) total_outputs += outputs;
  const int64_t set_bytes = total_outputs * row_bytes(shape.format, shape.cols);
  const int64_t copies = std::max<int64_t>(2, (24 << 20) / set_bytes);
  std::vector<uint8_t> weights(static_cast<size_t>(copies * set_bytes));
  fill_weights({weights.data(), shape.format, copies * total_outputs, shape.cols, 0.0f, 0.02f, 1}, queue);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> input(static_cast<size_t>(shape.rows * shape.cols));
  for (float& value : input) value = normal(random);
  std::vector<float> output(static_cast<size_t>(shape.rows * total_outputs));
  const int64_t scratch_bytes = matmul_scratch_bytes(shape.rows, shape.cols, total_outputs, queue.traits());
  std::vector<std::byte> scratch(static_cast<size_t>(scratch_bytes) + 64);
  std::byte* aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;

  std::vector<double> times;
  double spent = 0.0;
  for (int64_t call = 0; spent < seconds; ++call) {
    MatmulArgs args;
    args.input = DeviceView<float>(input.data(), shape.rows, shape.cols);
    args.count = 0;
    args.scratch = {aligned, 1, scratch_bytes};
    const uint8_t* at = weights.data() + call % copies * set_bytes;
    float* out = output.data();
    for (const int64_t outputs : shape.outputs) {
      if (outputs == 0) break;
      args.weights[args.count] = {at, shape.format, outputs, shape.cols};
      args.outputs[args.count] = DeviceView<float>(out, shape.rows, outputs);
      at += args.weights[args.count].bytes();
      out += shape.rows * outputs;
      ++args.count;
    }
    const int64_t begin = now_ns();
    matmul(args, queue);
    times.push_back(static_cast<double>(now_ns() - begin) * 1e-9);
    spent += times.back();
  }
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2], best = times[times.size() / 20];
  const double operations = 2.0 * static_cast<double>(shape.rows * total_outputs * shape.cols);
  std::printf("%-18s %-7s T %4lld  K %5lld  N %5lld  %9.1f us  %7.1f GFLOP/s (best %7.1f)  %6.1f GB/s (best %6.1f)\n",
              shape.name, format_info(shape.format).name, static_cast<long long>(shape.rows),
              static_cast<long long>(shape.cols), static_cast<long long>(total_outputs), median * 1e6,
              operations / median * 1e-9, operations / best * 1e-9, static_cast<double>(set_bytes) / median * 1e-9,
              static_cast<double>(set_bytes) / best * 1e-9);
}

}  // namespace

int main(int argument_count, char** arguments) {
  ThreadPool pool;
  const int threads = argument_count > 1 ? std::atoi(arguments[1]) : 2;
  const double seconds = argument_count > 2 ? std::atof(arguments[2]) : 0.2;
  if (!pool.start(threads).ok()) {
    std::fprintf(stderr, "%s\n", last_failure().sentence);
    return 2;
  }
  Queue queue(pool);
  const char* math = argument_count > 3 ? arguments[3] : "";
  if (std::strcmp(math, "bf16") == 0) queue.set_cpu_math(CpuMath::kBf16);
  for (const Shape& shape : kShapes)
    if (*math == '\0' || !is_block_format(shape.format)) measure(shape, seconds, queue);
  return 0;
}
