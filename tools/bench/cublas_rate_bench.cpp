// Rate of cuBLASLt itself in f16 on the matrix shapes of layers: the ceiling for prefill, for vision and for
// decode steps of 16 sessions.
//
//   cublas_rate_bench
//
// Prints one line of JSON: per shape and per layer the milliseconds (median of ten) and 1e12 operations per second.
// Weights rotate through copies that exceed the level-2 cache, as the layers of a model do; all values are random,
// because the power that a product takes, and so its clock, depends on them.
#include <cstdio>

#if !OCELLUS_HAS_CUDA

int main() {
  std::fprintf(stderr, "this build has no CUDA backend\n");
  return 2;
}

#else

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <vector>

#include "quant/weight_format.h"

namespace {

constexpr int kSamples = 10, kCallsPerSample = 8, kWarmUpCalls = 20;
constexpr int64_t kPoolBytes = 256 << 20, kWorkspaceBytes = 32 << 20;

struct Shape {
  const char* name;
  int count;  // per layer
  int64_t rows, outputs, inputs;
};

struct Layer {
  const char* name;
  std::vector<Shape> shapes;
};

const Layer kLayers[] = {
    {"8B, 16 rows",
     {{"q, o", 2, 16, 4096, 4096},
      {"k, v", 2, 16, 1024, 4096},
      {"gate, up", 2, 16, 14336, 4096},
      {"down", 1, 16, 4096, 14336}}},
    {"2.2B, 2048 rows",
     {{"q, k, v, o", 4, 2048, 2048, 2048}, {"gate, up", 2, 2048, 8192, 2048}, {"down", 1, 2048, 2048, 8192}}},
    {"SigLIP-B, 16 images of 1024 patches",
     {{"q, k, v, o", 4, 16384, 768, 768}, {"up", 1, 16384, 3072, 768}, {"down", 1, 16384, 768, 3072}}},
};

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(2);
}

void check(cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  std::fprintf(stderr, "%s\n", cublasLtGetStatusString(status));
  std::exit(2);
}

/// Allocates device memory filled with normal f16 numbers.
std::byte* random_halves(int64_t bytes) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<uint16_t> values(1 << 20);
  for (uint16_t& value : values) value = ocellus::float_to_half(normal(random)).bits;
  const auto piece = static_cast<int64_t>(values.size() * sizeof(uint16_t));
  std::byte* memory = nullptr;
  check(cudaMalloc(&memory, static_cast<size_t>(bytes)));
  for (int64_t at = 0; at < bytes; at += piece)
    check(cudaMemcpy(memory + at, values.data(), static_cast<size_t>(std::min(piece, bytes - at)), cudaMemcpyDefault));
  return memory;
}

struct Bench {
  cublasLtHandle_t handle = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  std::byte* weights = nullptr;
  std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::byte* workspace = nullptr;

  Bench() {
    check(cublasLtCreate(&handle));
    check(cudaStreamCreate(&stream));
    check(cudaEventCreate(&begin));
    check(cudaEventCreate(&end));
    weights = random_halves(kPoolBytes);
    int64_t most_inputs = 0, most_outputs = 0;
    for (const Layer& layer : kLayers)
      for (const Shape& shape : layer.shapes) {
        most_inputs = std::max(most_inputs, shape.rows * shape.inputs);
        most_outputs = std::max(most_outputs, shape.rows * shape.outputs);
      }
    input = random_halves(2 * most_inputs);
    check(cudaMalloc(&output, static_cast<size_t>(2 * most_outputs)));
    check(cudaMalloc(&workspace, kWorkspaceBytes));
  }

  double measure(const Shape& shape) const;
};

/// Returns the median milliseconds of one product.
double Bench::measure(const Shape& shape) const {
  const auto rows = static_cast<uint64_t>(shape.rows), outputs = static_cast<uint64_t>(shape.outputs);
  const auto inputs = static_cast<uint64_t>(shape.inputs);
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t w, x, y;
  cublasLtMatmulPreferenceOpaque_t preference;
  const cublasOperation_t transposed = CUBLAS_OP_T;
  const uint64_t workspace_bytes = kWorkspaceBytes;
  check(cublasLtMatmulDescInit(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  check(cublasLtMatmulDescSetAttribute(&operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed));
  check(cublasLtMatrixLayoutInit(&w, CUDA_R_16F, inputs, outputs, shape.inputs));
  check(cublasLtMatrixLayoutInit(&x, CUDA_R_16F, inputs, rows, shape.inputs));
  check(cublasLtMatrixLayoutInit(&y, CUDA_R_16F, outputs, rows, shape.outputs));
  check(cublasLtMatmulPreferenceInit(&preference));
  check(cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes,
                                             sizeof workspace_bytes));
  cublasLtMatmulHeuristicResult_t best{};
  int found = 0;
  check(cublasLtMatmulAlgoGetHeuristic(handle, &operation, &w, &x, &y, &y, &preference, 1, &best, &found));
  check(found == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : best.state);

  const int64_t weight_bytes = 2 * shape.outputs * shape.inputs, copies = kPoolBytes / weight_bytes;
  const float one = 1.0f, zero = 0.0f;
  int64_t call = 0;
  const auto multiply = [&] {
    check(cublasLtMatmul(handle, &operation, &one, weights + call++ % copies * weight_bytes, &w, input, &x, &zero,
                         output, &y, output, &y, &best.algo, workspace, kWorkspaceBytes, stream));
  };
  for (int i = 0; i < kWarmUpCalls; ++i) multiply();
  std::vector<double> times;
  for (int sample = 0; sample < kSamples; ++sample) {
    check(cudaEventRecord(begin, stream));
    for (int i = 0; i < kCallsPerSample; ++i) multiply();
    check(cudaEventRecord(end, stream));
    check(cudaEventSynchronize(end));
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end));
    times.push_back(ms / kCallsPerSample);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

int main() {
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, 0));
  const Bench bench;
  std::printf("{\"bench\": \"cublas_rate\", \"device\": \"%s\", \"cublaslt\": %zu, \"layers\": [", device.name,
              cublasLtGetVersion());
  const char* layer_comma = "";
  for (const Layer& layer : kLayers) {
    std::printf("%s{\"name\": \"%s\", \"products\": [", layer_comma, layer.name);
    double layer_ms = 0.0, layer_operations = 0.0;
    const char* comma = "";
    for (const Shape& shape : layer.shapes) {
      const double ms = bench.measure(shape);
      const double operations = 2.0 * static_cast<double>(shape.rows * shape.outputs * shape.inputs);
      layer_ms += shape.count * ms;
      layer_operations += shape.count * operations;
      std::printf(
          "%s{\"name\": \"%s\", \"count\": %d, \"rows\": %lld, \"outputs\": %lld, \"inputs\": %lld, \"ms\": %.4f, "
          "\"tflops\": %.1f}",
          comma, shape.name, shape.count, static_cast<long long>(shape.rows), static_cast<long long>(shape.outputs),
          static_cast<long long>(shape.inputs), ms, operations / ms * 1e-9);
      comma = ", ";
    }
    std::printf("], \"ms\": %.4f, \"tflops\": %.1f}", layer_ms, layer_operations / layer_ms * 1e-9);
    layer_comma = ", ";
  }
  std::printf("]}\n");
  return 0;
}

#endif
