#include "kernels/linear/norm_matmul.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "tests/kernels/base/taken_input.h"
#include "tests/kernels/linear/matmul_case.h"

namespace ocellus {
namespace {

constexpr int64_t kInputRows[] = {1, 2, 3, 4, 5, 8, 16, 17, 33, 64};
constexpr float kEpsilon = 1e-5f;

using test::Comparison;
using test::Product;
using test::take_input;
using test::TakenInput;

// Operands of one call after a norm, in memory that both backends read.
struct NormCase {
  NormCase(WeightFormat format_, const std::vector<int64_t>& sizes, int64_t cols_, int64_t rows_, bool bias_,
           int64_t gap_, uint64_t seed)
      : format(format_), cols(cols_), rows(rows_), gap(gap_), bias(bias_) {
    test::Random random(seed);
    const std::vector<float> values = random.normals(rows * (cols + gap)), norm = random.normals(cols);
    input.assign(values.begin(), values.end());
    norm_weight.assign(norm.begin(), norm.end());
    for (const int64_t size : sizes) {
      matrices.push_back(test::random_weights(format, size, cols, random));
      bytes.emplace_back(matrices.back().bytes.begin(), matrices.back().bytes.end());
      const std::vector<float> values_of_bias = random.normals(size);
      biases.emplace_back(values_of_bias.begin(), values_of_bias.end());
      decoded.push_back(matrices.back().decoded());
    }
  }

  bool plain() const { return !is_block_format(format); }
  test::Taken how_taken(bool on_cuda) const { return test::how_taken(format, rows, on_cuda); }
  WeightView weight(size_t i) const { return {bytes[i].data(), format, matrices[i].rows, cols}; }
  const float* bias_of(size_t i) const { return bias ? biases[i].data() : nullptr; }
  DeviceView<const float> view() const { return {input.data(), rows, cols, cols + gap}; }

  // The rows after the norm.
  std::vector<float> normed() const {
    std::vector<float> out;
    for (int64_t t = 0; t < rows; ++t) {
      const float* x = input.data() + t * (cols + gap);
      double squares = 0.0;
      for (int64_t i = 0; i < cols; ++i) squares += double{x[i]} * x[i];
      const double scale = 1.0 / std::sqrt(squares / static_cast<double>(cols) + kEpsilon);
      for (int64_t i = 0; i < cols; ++i)
        out.push_back(static_cast<float>(x[i] * scale * norm_weight[static_cast<size_t>(i)]));
    }
    return out;
  }

  // Returns output n of matrix i for row t, the bias included.
  Product expected(const TakenInput& x, size_t i, int64_t t, int64_t n, bool on_cuda) const {
    const test::Taken how = how_taken(on_cuda);
    Product product =
        test::multiply_reference(x, decoded[i].data() + n * cols, cols, t, how, test::sum_error(how, on_cuda) + 4e-6);
    if (!bias) return product;
    const double addend = biases[i][static_cast<size_t>(n)];
    product.value += addend;
    if (on_cuda) product.error += test::half_rounding(addend);  // many rows: of the type of the outputs
    return product;
  }

  WeightFormat format;
  int64_t cols, rows, gap;
  bool bias;
  Activation activation = Activation::kSilu;  // of gated products
  Activation plain_activation = Activation::kNone;
  test::Vector<float> input, norm_weight;
  std::vector<test::Weights> matrices;
  std::vector<test::Vector<uint8_t>> bytes;
  std::vector<test::Vector<float>> biases;
  std::vector<std::vector<float>> decoded;
};

// Scratch of either backend, with bands.
class Scratch {
 public:
  Scratch(const NormCase& c, Queue& queue) : queue_(queue) {
    int64_t most = 0;
    for (const test::Weights& matrix : c.matrices) most = std::max(most, matrix.rows);
    const int64_t size = matmul_scratch_bytes(c.rows, c.cols, most, queue.traits());
    view_ = queue.on_cuda() ? test::device_scratch(size, queue) : host_.emplace(1, size).view();
  }
  DeviceView<std::byte> view() const { return view_; }
  bool intact() const { return host_ ? host_->intact() : test::device_scratch_intact(view_, queue_); }

 private:
  Queue& queue_;
  std::optional<test::Guarded<std::byte>> host_;
  DeviceView<std::byte> view_;
};

// Outputs as floats, one after the other; checks the bands.
std::vector<float> run_norm_matmul(const NormCase& c, Queue& queue) {
  Scratch scratch(c, queue);
  test::Activations normed(queue, c.rows, c.cols);
  std::vector<std::unique_ptr<test::Activations>> outputs;
  NormMatmulArgs args;
  args.input = c.view();
  args.norm_weight = c.norm_weight.data();
  args.epsilon = kEpsilon;
  args.normed = normed.view();
  args.count = static_cast<int>(c.matrices.size());
  args.activation = c.plain_activation;
  args.scratch = scratch.view();
  for (size_t i = 0; i < c.matrices.size(); ++i) {
    outputs.push_back(
        std::make_unique<test::Activations>(queue, c.rows, c.matrices[i].rows, c.matrices[i].rows + c.gap));
    args.weights[i] = c.weight(i);
    args.biases[i] = c.bias_of(i);
    args.outputs[i] = outputs[i]->view();
  }
  norm_matmul(args, queue);
  REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
  CHECK(scratch.intact());
  CHECK(normed.intact());
  std::vector<float> values;
  for (size_t i = 0; i < outputs.size(); ++i) {
    CHECK(outputs[i]->intact());
    for (int64_t t = 0; t < c.rows; ++t)
      for (int64_t n = 0; n < c.matrices[i].rows; ++n) values.push_back(outputs[i]->get(t, n));
  }
  return values;
}

std::vector<float> run_gated_matmul(const NormCase& c, Queue& queue) {
  Scratch scratch(c, queue);
  const int64_t outputs = c.matrices[0].rows;
  test::Activations normed(queue, c.rows, c.cols), gate(queue, c.rows, outputs, outputs + c.gap),
      up(queue, c.rows, outputs, outputs + c.gap);
  GatedMatmulArgs args;
  args.input = c.view();
  args.norm_weight = c.norm_weight.data();
  args.epsilon = kEpsilon;
  args.normed = normed.view();
  args.gate_weight = c.weight(0);
  args.up_weight = c.weight(1);
  args.gate_bias = c.bias_of(0);
  args.up_bias = c.bias_of(1);
  args.gate = gate.view();
  args.up = up.view();
  args.activation = c.activation;
  args.scratch = scratch.view();
  gated_matmul(args, queue);
  REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
  CHECK(scratch.intact());
  CHECK(normed.intact());
  CHECK(gate.intact());
  CHECK(up.intact());
  std::vector<float> values;
  for (int64_t t = 0; t < c.rows; ++t)
    for (int64_t n = 0; n < outputs; ++n) values.push_back(gate.get(t, n));
  return values;
}

void check_norm_matmul(const NormCase& c, Queue& queue) {
  const std::vector<float> actual = run_norm_matmul(c, queue);
  const TakenInput x = take_input(c.normed(), c.cols, c.how_taken(queue.on_cuda()), 1e-5);
  Comparison comparison;
  size_t at = 0;
  for (size_t i = 0; i < c.matrices.size(); ++i)
    for (int64_t t = 0; t < c.rows; ++t)
      for (int64_t n = 0; n < c.matrices[i].rows; ++n, ++at) {
        Product sum = c.expected(x, i, t, n, queue.on_cuda());
        if (c.plain_activation == Activation::kSquaredRelu) {  // its slope is 2 x
          if (queue.on_cuda()) sum.error += 2.01 * test::half_rounding(sum.value);
          sum = {test::squared_relu(sum.value), (2 * std::abs(sum.value) + sum.error) * sum.error};
        }
        const double rounding = queue.on_cuda() ? 2.01 * test::half_rounding(sum.value) : 0.0;
        comparison.add(actual[at], queue.on_cuda() ? test::limited(sum.value) : sum.value, sum.error + rounding);
      }
  comparison.check();
}

void check_gated_matmul(const NormCase& c, Queue& queue) {
  const std::vector<float> actual = run_gated_matmul(c, queue);
  const bool on_cuda = queue.on_cuda();
  const TakenInput x = take_input(c.normed(), c.cols, c.how_taken(on_cuda), 1e-5);
  Comparison comparison;
  size_t at = 0;
  for (int64_t t = 0; t < c.rows; ++t)
    for (int64_t n = 0; n < c.matrices[0].rows; ++n, ++at) {
      Product gate = c.expected(x, 0, t, n, on_cuda), up = c.expected(x, 1, t, n, on_cuda);
      if (on_cuda && c.plain() && c.rows > 16) {  // may go by way of f16 gate and up
        gate.error += 2.01 * test::half_rounding(gate.value);
        up.error += 2.01 * test::half_rounding(up.value);
      }
      const double active = c.activation == Activation::kSilu ? test::silu(gate.value) : test::gelu_tanh(gate.value);
      const double value = active * up.value;  // neither activation is steeper than 1.13
      const double error = 1.13 * gate.error * (std::abs(up.value) + up.error) + std::abs(active) * up.error +
                           1e-5 * std::abs(value) + 1e-6 + (on_cuda ? 2.01 * test::half_rounding(value) : 0.0);
      comparison.add(actual[at], on_cuda ? test::limited(value) : value, error);
    }
  comparison.check();
}

std::vector<int64_t> columns_for(WeightFormat format) {
  if (!is_block_format(format)) return {8, 72, 576};
  if (format_info(format).block_elements == 256) return {256, 1280};
  return {32, 96, 544};
}

// Every format with every number of rows; widths, sizes, bias and gaps take turns.
template <class Check>
void for_each_case(bool gated, Check check) {
  uint64_t seed = 1;
  const std::vector<std::vector<int64_t>> sizes = {{1}, {33, 5}, {70, 16, 3}};
  const std::vector<std::vector<int64_t>> gated_sizes = {{1, 1}, {33, 33}, {70, 70}};
  for (int i = 0; i < kWeightFormatCount; ++i)
    for (const int64_t rows : kInputRows)
      for (const int64_t cols : columns_for(static_cast<WeightFormat>(i))) {
        if (test::skip(++seed)) continue;
        const auto format = static_cast<WeightFormat>(i);
        CAPTURE(std::string(format_info(format).name));
        CAPTURE(rows);
        CAPTURE(cols);
        const std::vector<int64_t>& chosen = (gated ? gated_sizes : sizes)[seed % 3];
        CAPTURE(chosen.size());
        check(NormCase(format, chosen, cols, rows, seed % 2 == 0, seed % 5 < 2 ? 3 : 0, seed));
      }
}

}  // namespace

TEST_CASE("a product after a norm agrees with the reference for every format and number of rows") {
  test::for_each_backend([&](Queue& queue) {
    for_each_case(false, [&](const NormCase& c) {
      check_norm_matmul(c, queue);
      NormCase squared = c;
      squared.plain_activation = Activation::kSquaredRelu;
      check_norm_matmul(squared, queue);
    });
  });
}

TEST_CASE("a gated product agrees with the reference for every format and number of rows") {
  test::for_each_backend([&](Queue& queue) {
    for_each_case(true, [&](const NormCase& c) {
      check_gated_matmul(c, queue);
      NormCase gelu = c;
      gelu.activation = Activation::kGeluTanh;
      check_gated_matmul(gelu, queue);
    });
  });
}

TEST_CASE("a product of few rows gives the same bits again") {
  const int repetitions = test::is_small_run() ? 1 : 3;
  test::for_each_backend([&](Queue& queue) {
    for (const WeightFormat format :
         {WeightFormat::kF16, WeightFormat::kQ8_0, WeightFormat::kQ4_K, WeightFormat::kQ6_K})
      for (const int64_t rows : {1, 3, 16, 64}) {
        CAPTURE(std::string(format_info(format).name));
        CAPTURE(rows);
        const NormCase c(format, {700, 700}, 2048, rows, true, 0, 7);
        const std::vector<float> plain = run_norm_matmul(c, queue), gated = run_gated_matmul(c, queue);
        for (int i = 0; i < repetitions; ++i) {
          const std::vector<float> plain_again = run_norm_matmul(c, queue), gated_again = run_gated_matmul(c, queue);
          CHECK(std::memcmp(plain.data(), plain_again.data(), plain.size() * sizeof(float)) == 0);
          CHECK(std::memcmp(gated.data(), gated_again.data(), gated.size() * sizeof(float)) == 0);
        }
      }
  });
}

}  // namespace ocellus
