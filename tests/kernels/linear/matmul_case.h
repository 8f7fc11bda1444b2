// One call of matmul with random operands on either backend, and the double-precision reference its results must meet.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/linear/matmul.h"
#include "quant/block_codes.h"
#include "tests/support/device.h"
#include "tests/support/random.h"
#include "tests/support/reference.h"
#include "tests/support/weights.h"

namespace ocellus::test {

struct MatmulOptions {
  bool bias = false;
  bool accumulate = false;
  int64_t gap = 0;  // elements between rows of the input and the outputs; between those of the input they are NaN
  Activation activation = Activation::kNone;
  bool input_activations = false;  // f16 on CUDA; otherwise f32 everywhere
  bool output_activations = false;
  bool side_by_side = false;  // all outputs are columns of one matrix
  int64_t weight_offset = 0;  // bytes of the weights' addresses beyond a multiple of 64; CUDA only
};

/// Scratch in the memory of the device, where atomics and copies into shared memory work whatever a library does there.
inline DeviceView<std::byte> device_scratch(int64_t bytes, Queue& queue) {
  constexpr int64_t kMax = 96 << 20;
  static std::byte* memory = nullptr;
  if (memory == nullptr) REQUIRE(queue.cuda()->allocate_device(kMax, &memory).ok());
  REQUIRE(bytes + 256 <= kMax);
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
    TestQueue plain(1);  // used with rows that are f32 on any backend
    Activations x_rows = input_rows(options.input_activations ? queue : *plain);
    Outputs outputs(*this, options.output_activations ? queue : *plain);
    std::vector<Vector<uint8_t>> visible_weights;
    std::vector<Vector<float>> visible_biases;
    MatmulArgs args;
    args.input = x_rows.view();
    args.count = static_cast<int>(weights.size());
    args.accumulate = options.accumulate;
    args.activation = options.activation;
    for (size_t i = 0; i < weights.size(); ++i) {
      args.weights[i] = weights[i].view();
      if (queue.on_cuda()) {  // on the CPU exactly these bytes, so that sanitizers see reads beyond them
        visible_weights.emplace_back(static_cast<size_t>(options.weight_offset));
        visible_weights.back().insert(visible_weights.back().end(), weights[i].bytes.begin(), weights[i].bytes.end());
        args.weights[i].data = visible_weights.back().data() + options.weight_offset;
      }
      visible_biases.emplace_back(biases[i].begin(), biases[i].end());
      args.biases[i] = options.bias ? visible_biases.back().data() : nullptr;
      args.outputs[i] = outputs.view(i);
    }
    multiply(args, queue);
    return outputs.values();
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

 private:
  Activations input_rows(Queue& queue) const {
    Activations values(queue, rows, cols, cols + options.gap);
    for (int64_t t = 0; t < rows; ++t)
      for (int64_t i = 0; i < cols + options.gap; ++i)
        values.set(t, i, i < cols ? x(t, i) : std::numeric_limits<float>::quiet_NaN());
    return values;
  }

  /// The matrices that the call writes to: one for all weights, or one for each.
  class Outputs {
   public:
    Outputs(const MatmulCase& c, Queue& queue) : case_(c) {
      int64_t width = 0;
      for (const Weights& weight : c.weights) width += weight.rows;
      for (size_t i = 0; i < c.weights.size(); ++i) {
        if (i == 0 || !c.options.side_by_side) {
          const int64_t cols = c.options.side_by_side ? width : c.weights[i].rows;
          matrices_.push_back(std::make_unique<Activations>(queue, c.rows, cols, cols + c.options.gap));
        }
        places_.push_back({matrices_.back().get(), i == 0 || !c.options.side_by_side ? 0 : next_});
        next_ = places_.back().first + c.weights[i].rows;
        for (int64_t t = 0; c.options.accumulate && t < c.rows; ++t)
          for (int64_t n = 0; n < c.weights[i].rows; ++n)
            places_[i].matrix->set(t, places_[i].first + n,
                                   c.before[i][static_cast<size_t>(t * c.weights[i].rows + n)]);
      }
    }
    ActivationView view(size_t i) {
      return places_[i].matrix->view().slice_cols(places_[i].first, case_.weights[i].rows);
    }
    std::vector<float> values() const {
      for (const auto& matrix : matrices_) CHECK(matrix->intact());
      std::vector<float> values;
      for (size_t i = 0; i < places_.size(); ++i)
        for (int64_t t = 0; t < case_.rows; ++t)
          for (int64_t n = 0; n < case_.weights[i].rows; ++n)
            values.push_back(places_[i].matrix->get(t, places_[i].first + n));
      return values;
    }

   private:
    struct Place {
      Activations* matrix;
      int64_t first;
    };
    const MatmulCase& case_;
    std::vector<std::unique_ptr<Activations>> matrices_;
    std::vector<Place> places_;
    int64_t next_ = 0;
  };
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
    case Activation::kSquaredRelu: return squared_relu(x);
  }
  return x;
}

/// A value added to a product, in double, and the magnitudes of its terms.
struct Addend {
  double value = 0.0, magnitude = 0.0;
};
inline Addend addend(const MatmulCase& c, size_t matrix, int64_t t, int64_t n) {
  const int64_t size = c.weights[matrix].rows;
  const double bias = c.options.bias ? c.biases[matrix][static_cast<size_t>(n)] : 0.0;
  const double before = c.options.accumulate ? c.before[matrix][static_cast<size_t>(t * size + n)] : 0.0;
  return {bias + before, std::abs(bias) + std::abs(before)};
}

}  // namespace ocellus::test
