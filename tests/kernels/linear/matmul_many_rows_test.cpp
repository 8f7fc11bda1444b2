// matmul on CUDA with more rows than the memory-bound kernels take: cuBLASLt, and what feeds it.
#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "kernels/linear/matmul_library.h"
#include "kernels/linear/matmul_scratch.h"
#include "tests/kernels/linear/matmul_case.h"

namespace ocellus {
namespace {

using test::activated;
using test::make_weights;
using test::MatmulCase;
using test::MatmulOptions;
using test::Weights;

std::vector<int64_t> columns_for(WeightFormat format) {
  if (!is_block_format(format)) return {8, 200};
  if (format_info(format).block_elements == 256) return {256, 768};
  return {32, 544};
}

std::vector<float> as_halves(std::vector<float> values) {
  for (float& value : values) value = test::as_half(value);
  return values;
}

constexpr double kLargestCompared = 6e4;

/// Output n of row t of a product of many rows on CUDA: inputs x and weights w as f16, sums in f32, where tensor cores
/// cut off rather than round; biases and outputs f16 if the outputs are. `error` is how far it may be off: infinitely
/// where f16 ends, as cuBLASLt makes of it what it likes.
double many_rows_reference(const MatmulCase& c, size_t matrix, const float* x, const float* w, int64_t t, int64_t n,
                           double* error) {
  double sum = 0.0, magnitude = 0.0;
  for (int64_t i = 0; i < c.cols; ++i) {
    const double product = double{w[i]} * x[i];
    sum += product;
    magnitude += std::abs(product);
  }
  const test::Addend extra = addend(c, matrix, t, n);
  const double value = sum + extra.value, result = activated(c.options.activation, value);
  *error = 2e-5 * (magnitude + extra.magnitude) + 2e-6;
  if (c.options.output_activations) {
    if (std::abs(sum) + extra.magnitude > kLargestCompared) *error = std::numeric_limits<double>::infinity();
    if (c.options.bias) {  // f16 too; where cuBLASLt cannot add it, sums are rounded before it is added
      *error += test::half_rounding(c.biases[matrix][static_cast<size_t>(n)]);
      *error += test::half_rounding(std::abs(sum) + *error);
    }
    *error += test::half_rounding(std::abs(value) + *error);
  }
  if (c.options.activation != Activation::kNone)  // slopes up to 1.13; a fast tanh may be 2^-11 off; rounded once more
    *error = 1.2 * *error + 5e-4 * std::abs(value) + test::half_rounding(1.01 * std::abs(result) + *error);
  return result;
}

/// Checks all outputs of a product of many rows on CUDA.
void check_many_rows(const MatmulCase& c, const std::vector<float>& actual) {
  const std::vector<float> x = as_halves(c.input);
  size_t at = 0, compared = 0, wrong = 0;
  double worst = 0.0;
  for (size_t matrix = 0; matrix < c.weights.size(); ++matrix) {
    const std::vector<float> w = as_halves(c.weights[matrix].decoded());
    for (int64_t t = 0; t < c.rows; ++t)
      for (int64_t n = 0; n < c.weights[matrix].rows; ++n, ++at) {
        double error = 0.0;
        const double expected =
            many_rows_reference(c, matrix, x.data() + t * c.cols, w.data() + n * c.cols, t, n, &error);
        if (std::isinf(error)) continue;
        ++compared;
        wrong += !(std::abs(actual[at] - expected) <= error);
        worst = std::max(worst, std::abs(actual[at] - expected) / error);
      }
  }
  CHECK_MESSAGE(wrong == 0, wrong << " of " << at << " outputs are wrong, worst error " << worst << " tolerances");
  CHECK(compared > at / 10);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Options that differ from call to call, so that all combinations occur.
MatmulOptions options_of(uint64_t number) {
  MatmulOptions options{.bias = number % 2 == 0,
                        .accumulate = number % 3 == 0 && number % 4 >= 2,
                        .gap = number % 5 < 2 ? (number % 5 == 0 ? 8 : 3) : 0,
                        .input_activations = number % 7 != 0,
                        .output_activations = number % 4 < 2,
                        .side_by_side = number % 11 < 6};
  if (options.output_activations) options.activation = static_cast<Activation>(number / 2 % 5);
  return options;
}

/// A library of its own, on the tests' GPU.
struct OwnLibrary {
  OwnLibrary() {
    REQUIRE(MatmulLibrary::create(*test::cuda_queue()->cuda(), &library).ok());
    queue.use_cuda(test::cuda_queue()->cuda(), library.get());
  }
  std::unique_ptr<MatmulLibrary> library;
  ThreadPool pool;
  Queue queue{pool};
};

bool without_cuda() {
  if (test::cuda_queue() == nullptr) MESSAGE("no GPU here: not run");
  return test::cuda_queue() == nullptr;
}

TEST_CASE("CUDA: products of many rows agree with the reference for every format and option") {
  if (without_cuda()) return;
  test::Random random(7);
  uint64_t number = 0;
  for (int format = 0; format < kWeightFormatCount; ++format)
    for (const int64_t cols : columns_for(static_cast<WeightFormat>(format)))
      for (const int64_t rows : {random.integer(65, 300), int64_t{128}})
        for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{1}, {130, 3, 72}}) {
          const MatmulOptions options = options_of(++number);
          if (test::skip(number)) continue;
          CAPTURE(std::string(format_info(static_cast<WeightFormat>(format)).name));
          CAPTURE(cols);
          CAPTURE(rows);
          CAPTURE(number);
          const MatmulCase c(make_weights(static_cast<WeightFormat>(format), sizes, cols, 50 + number), rows, options,
                             1000 + number);
          check_many_rows(c, c.run(*test::cuda_queue()));
        }
}

TEST_CASE("CUDA: every option with every type of outputs, at sizes of models") {
  if (without_cuda()) return;
  uint64_t number = 0;
  for (const bool output_activations : {false, true})
    for (const bool bias : {false, true})
      for (const bool accumulate : {false, true})
        for (const int64_t gap : {0, 3, 8}) {
          if (output_activations && accumulate) continue;  // outputs that accumulate are f32
          MatmulOptions options{.bias = bias, .accumulate = accumulate, .gap = gap, .input_activations = true};
          options.output_activations = output_activations;
          if (output_activations) options.activation = Activation::kGeluTanh;
          CAPTURE(output_activations);
          CAPTURE(bias);
          CAPTURE(accumulate);
          CAPTURE(gap);
          if (test::skip(++number)) continue;
          const MatmulCase c(make_weights(WeightFormat::kF16, {288}, 192, 900 + number), 512, options, number);
          check_many_rows(c, c.run(*test::cuda_queue()));
        }
}

TEST_CASE("CUDA: inner dimensions that 8 does not divide, and weights at odd addresses, for any number of rows") {
  if (without_cuda()) return;
  uint64_t number = 0;
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kBF16})
    for (const int64_t cols : {1, 8, 27, 52, 588})
      for (const int64_t rows : {1, 3, 31, 65, 201})  // odd: inputs of even rows start with zeros
        for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{1}, {130, 3, 72}}) {
          MatmulOptions options = options_of(++number);
          if (number % 5 == 2) options.gap = 4;  // with it, rows of 52 and 588 f16 start at multiples of 16 bytes
          options.weight_offset = number % 3 == 0 ? 8 : 0;
          if (test::skip(number)) continue;
          CAPTURE(std::string(format_info(format).name));
          CAPTURE(cols);
          CAPTURE(rows);
          CAPTURE(number);
          const MatmulCase c(make_weights(format, sizes, cols, 70 + number), rows, options, 3000 + number);
          check_many_rows(c, c.run(*test::cuda_queue()));
        }
  for (int format = 0; format < kWeightFormatCount; ++format)
    for (const int64_t rows : {1, 65}) {
      CAPTURE(std::string(format_info(static_cast<WeightFormat>(format)).name));
      CAPTURE(rows);
      const MatmulOptions options{.bias = true, .side_by_side = true, .weight_offset = 8};
      const MatmulCase c(make_weights(static_cast<WeightFormat>(format), {70, 9}, 256, 5), rows, options, 6);
      check_many_rows(c, c.run(*test::cuda_queue()));
    }
}

TEST_CASE("CUDA: lean devices' products agree with the reference, in parts of little scratch") {
  if (without_cuda()) return;
  OwnLibrary own;
  own.queue.set_lean(true);
  uint64_t number = 0;
  const auto check = [&](WeightFormat format, int64_t cols, int64_t rows, int64_t weight_offset) {
    if (test::skip(++number)) return;
    MatmulOptions options = options_of(number);
    options.weight_offset = weight_offset;
    CAPTURE(std::string(format_info(format).name));
    CAPTURE(cols);
    CAPTURE(rows);
    CAPTURE(number);
    const MatmulCase c(make_weights(format, {130, 3, 210}, cols, 80 + number), rows, options, 4000 + number);
    check_many_rows(c, c.run(own.queue));
  };
  for (int i = 0; i < kWeightFormatCount; ++i) {
    const auto format = static_cast<WeightFormat>(i);
    for (const int64_t cols : {256, 1536}) {
      for (const int64_t rows : {65, 201}) check(format, cols, rows, 0);
      for (const int64_t rows : {1, 7, 64}) check(format, cols, rows, 8);
      if (!is_block_format(format)) check(format, cols, 64, 0);
    }
    if (!is_block_format(format))
      for (const int64_t rows : {1, 64, 201}) check(format, 588, rows, 0);
  }
}

TEST_CASE("CUDA: outputs side by side get the same bits as one matrix of all their weights") {
  if (without_cuda()) return;
  for (const WeightFormat format : {WeightFormat::kBF16, WeightFormat::kQ8_0})
    for (const bool output_activations : {false, true}) {
      std::vector<Weights> parts = make_weights(format, {96, 40, 72}, 320, 15);
      Weights whole{{}, format, 96 + 40 + 72, 320};
      for (const Weights& part : parts) whole.bytes.insert(whole.bytes.end(), part.bytes.begin(), part.bytes.end());
      const MatmulOptions options{
          .bias = true, .input_activations = true, .output_activations = output_activations, .side_by_side = true};
      MatmulCase joined(parts, 150, options, 16), alone({whole}, 150, options, 16);
      alone.biases[0].clear();
      for (const std::vector<float>& bias : joined.biases)
        alone.biases[0].insert(alone.biases[0].end(), bias.begin(), bias.end());
      const std::vector<float> got = joined.run(*test::cuda_queue()), expected = alone.run(*test::cuda_queue());
      check_many_rows(joined, got);
      std::vector<float> by_matrix;
      for (int64_t first = 0; const Weights& part : parts) {
        for (int64_t t = 0; t < 150; ++t)
          by_matrix.insert(by_matrix.end(), expected.begin() + t * whole.rows + first,
                           expected.begin() + t * whole.rows + first + part.rows);
        first += part.rows;
      }
      CHECK(same_bits(got, by_matrix));
    }
}

TEST_CASE("CUDA: a plan serves every number of rows of its bucket") {
  if (without_cuda()) return;
  OwnLibrary own;
  for (const WeightFormat format : {WeightFormat::kF16, WeightFormat::kQ8_0}) {
    std::vector<int64_t> counts;
    const int64_t most_few = format == WeightFormat::kF16 ? 32 : 64;
    for (int64_t rows = 128; rows > most_few; --rows) counts.push_back(rows);
    for (int64_t rows = 129; rows <= 256; rows += 18) counts.push_back(rows);
    for (const int64_t rows : counts) {
      CAPTURE(rows);
      if (test::skip(static_cast<uint64_t>(rows))) continue;
      const MatmulOptions options{.bias = true, .input_activations = true, .output_activations = true};
      const MatmulCase c(make_weights(format, {72}, 64, 3), rows, options, 4);
      check_many_rows(c, c.run(own.queue));
    }
  }
}

TEST_CASE("CUDA: twice the same call gives the same bits") {
  if (without_cuda()) return;
  for (const WeightFormat format : {WeightFormat::kF16, WeightFormat::kQ4_K})
    for (const int64_t rows : {70, 256}) {
      const MatmulOptions options{.accumulate = true, .input_activations = true};
      const MatmulCase c(make_weights(format, {64, 96}, 4096, 5), rows, options, 6);
      CHECK(same_bits(c.run(*test::cuda_queue()), c.run(*test::cuda_queue())));
    }
}

TEST_CASE("CUDA: matrices and inputs larger than their scratch are taken in parts") {
  if (without_cuda()) return;
  constexpr int64_t kRows = 520, kCols = 8192, kOutputs = 2100;
  static_assert(cuda::part_rows(kRows, cuda::rounded_input_bytes(false), kCols) < kRows);
  constexpr int64_t kBudget = cuda::decoded_weight_bytes(kRows, false);
  static_assert(cuda::part_rows(kOutputs, kBudget, kCols) < kOutputs);
  MatmulOptions options{.bias = true, .output_activations = true};
  const MatmulCase c(make_weights(WeightFormat::kQ4_0, {kOutputs}, kCols, 7), kRows, options, 8);
  const std::vector<float> actual = c.run(*test::cuda_queue());
  const int64_t part = cuda::part_rows(kOutputs, kBudget, kCols);
  const std::vector<float> x = as_halves(c.input);
  std::vector<float> decoded(kCols);
  for (const int64_t n : {int64_t{0}, int64_t{63}, part - 1, part, part + 1, kOutputs - 1}) {
    decode_row(c.weights[0].format, c.weights[0].view().row(n), kCols, decoded.data());
    decoded = as_halves(decoded);
    for (const int64_t t : {0, 1, 255, 256, 319, 320, 511, 512, 519}) {
      CAPTURE(n);
      CAPTURE(t);
      double error = 0.0;
      const double expected = many_rows_reference(c, 0, x.data() + t * kCols, decoded.data(), t, n, &error);
      CHECK(std::abs(actual[static_cast<size_t>(t * kOutputs + n)] - expected) <= error);
    }
  }
}

TEST_CASE("CUDA: after freeze() known shapes run and others fail") {
  if (without_cuda()) return;
  OwnLibrary own;
  const MatmulOptions options{.input_activations = true, .output_activations = true};
  const auto weights = make_weights(WeightFormat::kF16, {48}, 64, 9);
  MatmulCase(weights, 200, options, 10).run(own.queue);
  own.library->freeze();
  for (const int64_t rows : {129, 250, 256, 90}) {  // the last through the next larger bucket
    CAPTURE(rows);
    const MatmulCase c(weights, rows, options, 10);
    check_many_rows(c, c.run(own.queue));
  }
  const auto fails = [&](const MatmulCase& c) {
    test::Activations input(own.queue, c.rows, c.cols), output(own.queue, c.rows, c.most_outputs());
    const test::Vector<uint8_t> bytes(c.weights[0].bytes.begin(), c.weights[0].bytes.end());
    MatmulArgs args;
    args.input = input.view();
    args.weights[0] = c.weights[0].view();
    args.weights[0].data = bytes.data();
    args.outputs[0] = output.view();
    args.scratch =
        test::device_scratch(matmul_scratch_bytes(c.rows, c.cols, c.most_outputs(), own.queue.traits()), own.queue);
    matmul(args, own.queue);
    CHECK(own.queue.finish().code() == Code::kInternal);
    CHECK(output.untouched_count() == c.rows * c.most_outputs());
    own.queue.clear();
  };
  fails(MatmulCase(weights, 300, options, 10));  // more rows than any met
  fails(MatmulCase(make_weights(WeightFormat::kF16, {56}, 64, 9), 200, options, 10));
}

/// A product of weights and rows of f16 on one queue, run and recorded.
struct Recorded {
  explicit Recorded(WeightFormat format, int64_t cols, Queue& queue_)
      : queue(queue_),
        weights(std::move(make_weights(format, {kOutputs}, cols, 11)[0])),
        bytes(weights.bytes.begin(), weights.bytes.end()),
        biases(kOutputs, 0.5f),
        input(queue, kRows, cols),
        output(queue, kRows, kOutputs) {
    test::Random random(12);
    for (int64_t t = 0; t < kRows; ++t)
      for (int64_t i = 0; i < cols; ++i) input.set(t, i, random.normal());
    args.input = input.view();
    args.weights[0] = {bytes.data(), format, kOutputs, cols};
    args.biases[0] = biases.data();
    args.outputs[0] = output.view();
    args.scratch = test::device_scratch(matmul_scratch_bytes(kRows, cols, kOutputs, queue.traits()), queue);
  }
  std::vector<float> run(bool record) {
    for (int64_t t = 0; t < kRows; ++t)
      for (int64_t n = 0; n < kOutputs; ++n) output.set(t, n, -1.0f);
    CudaGraph graph;
    if (record) REQUIRE(queue.begin_capture().ok());
    matmul(args, queue);
    if (record) REQUIRE(queue.end_capture(&graph).ok());
    if (record) queue.launch(graph);
    REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
    std::vector<float> values;
    for (int64_t t = 0; t < kRows; ++t)
      for (int64_t n = 0; n < kOutputs; ++n) values.push_back(output.get(t, n));
    return values;
  }

  static constexpr int64_t kRows = 100, kOutputs = 80;
  Queue& queue;
  Weights weights;
  test::Vector<uint8_t> bytes;
  test::Vector<float> biases;
  test::Activations input, output;
  MatmulArgs args;
};

TEST_CASE("CUDA: a product can be recorded before or after it was first run, and gives the same bits") {
  if (without_cuda()) return;
  for (const auto& [format, cols] :
       {std::pair{WeightFormat::kQ8_0, 64}, {WeightFormat::kF16, 64}, {WeightFormat::kF16, 52}})
    for (const bool recorded_first : {false, true}) {
      CAPTURE(cols);
      CAPTURE(recorded_first);
      OwnLibrary own;
      Recorded product(format, cols, own.queue);
      const std::vector<float> first = product.run(recorded_first), second = product.run(!recorded_first);
      CHECK(same_bits(first, second));
    }
}

TEST_CASE("parts of rows and outputs fit the scratch that is planned for them") {
  for (const int64_t cols : {8, 64, 576, 2048, 2056, 8192, 53248, 1 << 20})
    for (const int64_t rows : {1, 63, 64, 65, 1000, 4096, 16384, 151936})
      for (const int64_t bytes : {cuda::rounded_input_bytes(false), cuda::decoded_weight_bytes(1, false),
                                  cuda::decoded_weight_bytes(100, false), cuda::decoded_weight_bytes(100, true)}) {
        CAPTURE(cols);
        CAPTURE(rows);
        const int64_t part = cuda::part_rows(rows, bytes, cols);
        CHECK(part >= 1);
        CHECK(part <= rows);
        CHECK(2 * part * cols <= cuda::part_bytes(rows, bytes, cols));
        CHECK(cuda::part_bytes(rows, bytes, cols) <= cuda::part_bytes(rows + 7, bytes, cols + 8));
        if (part < rows) CHECK(part % cuda::kSmallestPart == 0);
      }
}

TEST_CASE("scratch for many rows on CUDA serves fewer rows, inputs and outputs") {
  const std::vector<int64_t> sizes = {1, 7, 8, 27, 31, 32, 33, 64, 65, 576, 588, 2049, 49280};
  for (const int64_t rows : sizes)
    for (const int64_t cols : sizes)
      for (const int64_t outputs : sizes)
        for (const bool lean : {false, true}) {
          const int64_t bytes = cuda::many_rows_scratch_bytes(rows, cols, outputs, lean);
          CHECK(bytes <= cuda::many_rows_scratch_bytes(rows + 1, cols, outputs, lean));
          CHECK(bytes <= cuda::many_rows_scratch_bytes(rows, cols + 1, outputs, lean));
          CHECK(bytes <= cuda::many_rows_scratch_bytes(rows, cols, outputs + 1, lean));
          CHECK(cuda::many_rows_scratch_bytes(rows, cols, outputs, true) <= bytes);
        }
}

TEST_CASE("scratch of a lean device's products is small") {
  for (const int64_t rows : {1, 64}) CHECK(cuda::matmul_scratch_bytes(rows, 1536, 2560, true) < 250'000);
}

}  // namespace
}  // namespace ocellus
