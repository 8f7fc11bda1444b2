// One call of matmul with random operands on either backend, and the double-precision reference its results must meet.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/matmul.h"
#include "quant/block_codes.h"
#include "tests/support/device.h"
#include "tests/support/random.h"
#include "tests/support/reference.h"
#include "tests/support/weights.h"

namespace ocellus::test {

struct MatmulOptions {
  bool bias = false;
  bool accumulate = false;
  int64_t gap = 0;  // elements between rows of the input and the outputs
  Activation activation = Activation::kNone;
  bool input_activations = false;  // f16 on CUDA; otherwise f32 everywhere
  bool output_activations = false;
};

/// Scratch in the memory of the device, where atomics and copies into shared memory work whatever a library does there.
inline DeviceView<std::byte> device_scratch(int64_t bytes, Queue& queue) {
  constexpr int64_t kMost = 96 << 20;
  static std::byte* memory = nullptr;
  if (memory == nullptr) REQUIRE(queue.cuda()->allocate_device(kMost, &memory).ok());
  REQUIRE(bytes + 256 <= kMost);
  REQUIRE(queue.cuda()->fill(memory + bytes, 0xA7, 256).ok());
  return {memory, 1, bytes};
}
inline bool device_scratch_intact(DeviceView<std::byte> scratch, Queue& queue) {
  Vector<uint8_t> band(256);
  queue.copy(band.data(), scratch.data + scratch.cols, 256);
  REQUIRE(queue.finish().ok());
  return std::all_of(band.begin(), band.end(), [](uint8_t byte) { return byte == 0xA7; });
}

inline float as_half(float value) { return half_to_float(float_to_half(std::clamp(value, -65504.0f, 65504.0f))); }

struct MatmulCase {
  MatmulCase(std::vector<Weights> weights_, int64_t rows_, MatmulOptions options_, uint64_t seed)
      : weights(std::move(weights_)), rows(rows_), cols(weights[0].cols), options(options_) {
    Random random(seed);
    input = random.normals(rows * cols);
    // Groups of very different size, and one that is all zero.
    for (int64_t i = 0; i < std::min<int64_t>(32, cols); ++i)
      input[static_cast<size_t>(i)] *= rows % 2 == 0 ? 0.0f : 1000.0f;
    if (options.input_activations)
      for (float& value : input) value = as_half(value);
    for (const Weights& weight : weights) {
      biases.push_back(random.normals(weight.rows));
      before.push_back(random.normals(rows * weight.rows));
      if (options.output_activations)
        for (float& value : before.back()) value = as_half(value);
    }
  }

  float x(int64_t t, int64_t i) const { return input[static_cast<size_t>(t * cols + i)]; }
  int64_t most_outputs() const {
    int64_t most = 0;
    for (const Weights& weight : weights) most = std::max(most, weight.rows);
    return most;
  }

  /// Runs the call and returns all outputs, one after the other.
  std::vector<float> run(Queue& queue) const {
    TestQueue plain(1);  // for rows that are f32 on any backend
    Activations x_rows(options.input_activations ? queue : *plain, rows, cols, cols + options.gap);
    for (int64_t t = 0; t < rows; ++t)
      for (int64_t i = 0; i < cols; ++i) x_rows.set(t, i, x(t, i));
    std::vector<std::unique_ptr<Activations>> outputs;
    std::vector<Vector<uint8_t>> visible_weights;
    std::vector<Vector<float>> visible_biases;
    MatmulArgs args;
    args.input = x_rows.view();
    args.count = static_cast<int>(weights.size());
    args.accumulate = options.accumulate;
    args.activation = options.activation;
    for (size_t i = 0; i < weights.size(); ++i) {
      const int64_t size = weights[i].rows;
      outputs.push_back(
          std::make_unique<Activations>(options.output_activations ? queue : *plain, rows, size, size + options.gap));
      if (options.accumulate)
        for (int64_t t = 0; t < rows; ++t)
          for (int64_t n = 0; n < size; ++n) outputs[i]->set(t, n, before[i][static_cast<size_t>(t * size + n)]);
      args.weights[i] = weights[i].view();
      if (queue.on_cuda()) {  // on the CPU the exact bytes, so that sanitizers see reads behind them
        visible_weights.emplace_back(weights[i].bytes.begin(), weights[i].bytes.end());
        args.weights[i].data = visible_weights.back().data();
      }
      visible_biases.emplace_back(biases[i].begin(), biases[i].end());
      args.biases[i] = options.bias ? visible_biases.back().data() : nullptr;
      args.outputs[i] = outputs[i]->view();
    }
    multiply(args, queue);
    std::vector<float> values;
    for (size_t i = 0; i < weights.size(); ++i) {
      CHECK(outputs[i]->intact());
      for (int64_t t = 0; t < rows; ++t)
        for (int64_t n = 0; n < weights[i].rows; ++n) values.push_back(outputs[i]->get(t, n));
    }
    return values;
  }

  void multiply(MatmulArgs& args, Queue& queue) const {
    const int64_t bytes = matmul_scratch_bytes(rows, cols, most_outputs(), queue.traits());
    std::optional<Guarded<std::byte>> scratch;
    args.scratch = queue.on_cuda() ? device_scratch(bytes, queue) : scratch.emplace(1, bytes).view();
    matmul(args, queue);
    REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
    CHECK((scratch ? scratch->intact() : device_scratch_intact(args.scratch, queue)));
  }

  std::vector<Weights> weights;
  int64_t rows, cols;
  MatmulOptions options;
  std::vector<float> input;
  std::vector<std::vector<float>> biases, before;
};

inline std::vector<Weights> make_weights(WeightFormat format, std::vector<int64_t> sizes, int64_t cols, uint64_t seed) {
  Random random(seed);
  std::vector<Weights> weights;
  for (const int64_t size : sizes) weights.push_back(random_weights(format, size, cols, random));
  return weights;
}

inline double activated(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone: break;
    case Activation::kGeluTanh: return gelu_tanh(x);
    case Activation::kGeluErf: return gelu_erf(x);
    case Activation::kQuickGelu: return quick_gelu(x);
    case Activation::kSilu: return silu(x);
  }
  return x;
}

/// What is added to a product, in double, and the sizes of what was added up.
struct Addend {
  double value = 0.0, magnitude = 0.0;
};
inline Addend addend(const MatmulCase& c, size_t matrix, int64_t t, int64_t n) {
  const int64_t size = c.weights[matrix].rows;
  const double bias = c.options.bias ? c.biases[matrix][static_cast<size_t>(n)] : 0.0;
  const double before = c.options.accumulate ? c.before[matrix][static_cast<size_t>(t * size + n)] : 0.0;
  return {bias + before, std::abs(bias) + std::abs(before)};
}

/// Output n of row t of a product of many rows on CUDA: inputs and weights as f16, sums in f32, where tensor cores cut
/// off rather than round; biases and outputs f16 if the outputs are. `error` is how far it may be off.
inline double many_rows_reference(const MatmulCase& c, size_t matrix, const float* decoded, int64_t t, int64_t n,
                                  double* error) {
  double sum = 0.0, magnitude = 0.0;
  for (int64_t i = 0; i < c.cols; ++i) {
    const double product = double{as_half(decoded[i])} * as_half(c.x(t, i));
    sum += product;
    magnitude += std::abs(product);
  }
  const Addend extra = addend(c, matrix, t, n);
  const double value = sum + extra.value, result = activated(c.options.activation, value);
  *error = 2e-5 * (magnitude + extra.magnitude) + 2e-6;
  if (c.options.output_activations) {
    if (c.options.accumulate) *error += 1.01 * half_rounding(extra.magnitude);  // what was there before was f16, too
    if (c.options.bias) *error += half_rounding(c.biases[matrix][static_cast<size_t>(n)]);
    *error += 1.01 * half_rounding(value);
  }
  if (c.options.activation != Activation::kNone)  // slopes up to 1.13; a fast tanh may be 2^-11 off; rounded once more
    *error = 1.2 * *error + 5e-4 * std::abs(value) + 1.01 * half_rounding(result);
  return result;
}

/// Checks all outputs of a product of many rows on CUDA.
inline void check_many_rows(const MatmulCase& c, const std::vector<float>& actual) {
  size_t at = 0, wrong = 0;
  double worst = 0.0;
  for (size_t matrix = 0; matrix < c.weights.size(); ++matrix) {
    const std::vector<float> decoded = c.weights[matrix].decoded();
    for (int64_t t = 0; t < c.rows; ++t)
      for (int64_t n = 0; n < c.weights[matrix].rows; ++n, ++at) {
        double error = 0.0;
        const double expected = many_rows_reference(c, matrix, decoded.data() + n * c.cols, t, n, &error);
        wrong += !(std::abs(actual[at] - expected) <= error);
        worst = std::max(worst, std::abs(actual[at] - expected) / error);
      }
  }
  CHECK_MESSAGE(wrong == 0, wrong << " of " << at << " outputs are wrong, worst error " << worst << " tolerances");
}

}  // namespace ocellus::test
