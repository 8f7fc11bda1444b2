// matmul on CUDA with more rows than the memory-bound kernels take: cuBLASLt, and what feeds it.
#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "kernels/matmul_library.h"
#include "kernels/matmul_scratch.h"
#include "tests/kernels/matmul_case.h"

namespace ocellus {
namespace {

using test::make_weights;
using test::MatmulCase;
using test::MatmulOptions;

std::vector<int64_t> columns_for(WeightFormat format) {
  if (!is_block_format(format)) return {8, 200};
  if (format_info(format).block_elements == 256) return {256, 768};
  return {32, 544};
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Options that differ from call to call, so that all combinations occur.
MatmulOptions options_of(uint64_t number) {
  MatmulOptions options{.bias = number % 2 == 0,
                        .accumulate = number % 3 == 0,
                        .gap = number % 5 < 2 ? (number % 5 == 0 ? 8 : 3) : 0,
                        .input_activations = number % 7 != 0,
                        .output_activations = number % 4 < 2};
  if (!options.accumulate && options.output_activations) options.activation = static_cast<Activation>(number / 2 % 5);
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
          MatmulOptions options{.bias = bias, .accumulate = accumulate, .gap = gap, .input_activations = true};
          options.output_activations = output_activations;
          if (output_activations && !accumulate) options.activation = Activation::kGeluTanh;
          CAPTURE(output_activations);
          CAPTURE(bias);
          CAPTURE(accumulate);
          CAPTURE(gap);
          ++number;
          const MatmulCase c(make_weights(WeightFormat::kF16, {288}, 192, 900 + number), 512, options, number);
          check_many_rows(c, c.run(*test::cuda_queue()));
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
  static_assert(cuda::part_rows(kRows, cuda::kRoundedInputBytes, kCols) < kRows);
  static_assert(cuda::part_rows(kOutputs, cuda::kDecodedWeightBytes, kCols) < kOutputs);
  MatmulOptions options{.bias = true, .output_activations = true};
  const MatmulCase c(make_weights(WeightFormat::kQ4_0, {kOutputs}, kCols, 7), kRows, options, 8);
  const std::vector<float> actual = c.run(*test::cuda_queue());
  const int64_t part = cuda::part_rows(kOutputs, cuda::kDecodedWeightBytes, kCols);
  std::vector<float> decoded(kCols);
  for (const int64_t n : {int64_t{0}, int64_t{63}, part - 1, part, part + 1, kOutputs - 1}) {
    decode_row(c.weights[0].format, c.weights[0].view().row(n), kCols, decoded.data());
    for (const int64_t t : {0, 1, 255, 256, 319, 320, 511, 512, 519}) {
      CAPTURE(n);
      CAPTURE(t);
      double error = 0.0;
      const double expected = many_rows_reference(c, 0, decoded.data(), t, n, &error);
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

TEST_CASE("CUDA: a product that was met can be captured, and gives the same bits") {
  if (without_cuda()) return;
  constexpr int64_t kRows = 100, kCols = 64, kOutputs = 80;
  Queue& queue = *test::cuda_queue();
  const auto weights = make_weights(WeightFormat::kQ8_0, {kOutputs}, kCols, 11);
  const test::Vector<uint8_t> bytes(weights[0].bytes.begin(), weights[0].bytes.end());
  test::Random random(12);
  test::Activations input(queue, kRows, kCols), output(queue, kRows, kOutputs);
  for (int64_t t = 0; t < kRows; ++t)
    for (int64_t i = 0; i < kCols; ++i) input.set(t, i, random.normal());
  MatmulArgs args;
  args.input = input.view();
  args.weights[0] = {bytes.data(), weights[0].format, kOutputs, kCols};
  args.outputs[0] = output.view();
  args.scratch = test::device_scratch(matmul_scratch_bytes(kRows, kCols, kOutputs, queue.traits()), queue);
  matmul(args, queue);
  REQUIRE(queue.finish().ok());
  std::vector<float> first;
  for (int64_t t = 0; t < kRows; ++t)
    for (int64_t n = 0; n < kOutputs; ++n) {
      first.push_back(output.get(t, n));
      output.set(t, n, -1.0f);
    }
  CudaGraph graph;
  REQUIRE(queue.begin_capture().ok());
  matmul(args, queue);
  REQUIRE(queue.end_capture(&graph).ok());
  queue.launch(graph);
  REQUIRE(queue.finish().ok());
  std::vector<float> again;
  for (int64_t t = 0; t < kRows; ++t)
    for (int64_t n = 0; n < kOutputs; ++n) again.push_back(output.get(t, n));
  CHECK(same_bits(first, again));
}

TEST_CASE("parts of rows and outputs fit the scratch that is planned for them") {
  for (const int64_t cols : {8, 64, 576, 2048, 2049, 8192, 53248, 1 << 20})
    for (const int64_t rows : {1, 63, 64, 65, 1000, 4096, 16384, 151936})
      for (const int64_t bytes : {cuda::kRoundedInputBytes, cuda::kDecodedWeightBytes}) {
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

}  // namespace
}  // namespace ocellus
