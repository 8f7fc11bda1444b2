#include "kernels/linear/matmul_few_rows.h"

#include <doctest/doctest.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "tests/kernels/base/taken_input.h"
#include "tests/kernels/linear/matmul_case.h"

namespace ocellus {
namespace {

// matmul with all its options, where blocks take one row and where they take many.
void check_few_rows(const test::MatmulCase& c, Queue& queue, std::optional<test::Taken> of_blocks = {}) {
  const std::vector<float> actual = c.run(queue);
  const WeightFormat format = c.weights[0].format;
  const test::Taken how = of_blocks && is_block_format(format) ? *of_blocks : test::how_taken(format, c.rows, true);
  const test::TakenInput x = test::take_input(c.input, c.cols, how, 0.0);
  test::Comparison comparison;
  size_t at = 0;
  for (size_t i = 0; i < c.weights.size(); ++i) {
    const std::vector<float> decoded = c.weights[i].decoded();
    for (int64_t t = 0; t < c.rows; ++t)
      for (int64_t n = 0; n < c.weights[i].rows; ++n, ++at) {
        const test::Product sum =
            test::multiply_reference(x, decoded.data() + n * c.cols, c.cols, t, how, test::sum_error(how, true));
        const test::Addend extra = test::addend(c, i, t, n);
        const double value = test::activated(c.options.activation, sum.value + extra.value);
        double error = 1.2 * (sum.error + 1e-6 * extra.magnitude) + 4e-6 * std::abs(value);
        if (c.options.output_activations) error += 1.01 * test::half_rounding(value);
        comparison.add(actual[at], c.options.output_activations ? test::limited(value) : value, error);
      }
  }
  comparison.check();
}

}  // namespace

TEST_CASE("products of few rows on CUDA agree with the reference with every option") {
  Queue* queue = test::cuda_queue();
  if (queue == nullptr) return;
  uint64_t seed = 1;
  for (int i = 0; i < kWeightFormatCount; ++i)
    for (const int64_t rows : {1, 2, 4, 7, 8, 11, 16}) {
      const auto format = static_cast<WeightFormat>(i);
      // Wide enough that rows from the third on are rounded beforehand, and sizes that give blocks several units.
      for (const int64_t cols : {512, 6912}) {
        if (test::skip(++seed)) continue;
        CAPTURE(std::string(format_info(format).name));
        CAPTURE(rows);
        CAPTURE(cols);
        test::MatmulOptions options{.bias = seed % 2 == 0, .accumulate = seed % 3 == 0, .gap = seed % 5 < 2 ? 3 : 0};
        options.input_activations = seed % 7 < 3;
        options.output_activations = seed % 7 > 1 && !options.accumulate;
        if (!options.accumulate) options.activation = static_cast<Activation>(seed / 3 % 5);
        const std::vector<int64_t> sizes = cols == 512 ? std::vector<int64_t>{2200, 33} : std::vector<int64_t>{77};
        check_few_rows(test::MatmulCase(test::make_weights(format, sizes, cols, seed), rows, options, seed + 1),
                       *queue);
      }
    }
}

TEST_CASE("products of up to four rows on CUDA agree with the reference wherever rows and pieces end") {
  Queue* queue = test::cuda_queue();
  if (queue == nullptr) return;
  uint64_t seed = 1000;
  for (int i = 0; i < kWeightFormatCount; ++i) {
    const auto format = static_cast<WeightFormat>(i);
    const int64_t block = format_info(format).block_elements;
    // Parts of a piece, whole ones, more than the ring holds; rows that start at any even address.
    const std::vector<int64_t> widths = block == 1    ? std::vector<int64_t>{8, 520, 1032, 4096}
                                        : block == 32 ? std::vector<int64_t>{32, 96, 1056, 2048, 11296}
                                                      : std::vector<int64_t>{256, 1280, 2048, 2304, 12544};
    for (const int64_t cols : widths)
      for (const int64_t rows : {1, 2, 3, 4}) {
        if (test::skip(++seed)) continue;
        CAPTURE(std::string(format_info(format).name));
        CAPTURE(rows);
        CAPTURE(cols);
        test::MatmulOptions options{.bias = seed % 2 == 0, .accumulate = seed % 3 == 0, .gap = seed % 5 < 2 ? 3 : 0};
        options.input_activations = seed % 7 < 3;
        options.output_activations = seed % 4 < 2 && !options.accumulate;
        if (!options.accumulate) options.activation = static_cast<Activation>(seed / 3 % 5);
        // Fewer rows than warps, a second matrix within a block, and several rows to each of a block's fewer and more
        // warps.
        const std::vector<int64_t> sizes = cols > 4096   ? std::vector<int64_t>{5, 150}
                                           : cols > 1100 ? std::vector<int64_t>{1, 4500, 7}
                                                         : std::vector<int64_t>{1, 9000, 7};
        check_few_rows(test::MatmulCase(test::make_weights(format, sizes, cols, seed), rows, options, seed + 1),
                       *queue);
      }
  }
}

TEST_CASE("batch-invariant products agree with the reference, and every row with itself alone, bit by bit") {
  Queue* queue = test::cuda_queue();
  if (queue == nullptr) return;
  const test::BatchInvariant invariant(*queue);
  uint64_t seed = 2000;
  for (int i = 0; i < kWeightFormatCount; ++i) {
    const auto format = static_cast<WeightFormat>(i);
    for (const int64_t cols : {256, 2304})
      for (const int64_t rows : {2, 8, 9, 33, 64}) {
        if (test::skip(++seed)) continue;
        CAPTURE(std::string(format_info(format).name));
        CAPTURE(rows);
        CAPTURE(cols);
        test::MatmulOptions options{.bias = seed % 2 == 0, .accumulate = seed % 3 == 0};
        options.input_activations = seed % 7 < 3;
        options.output_activations = !options.accumulate;
        options.weight_offset = seed % 4 == 0 ? 8 : 0;  // those the kernels for few rows cannot read
        const int64_t outputs = 300;
        const test::MatmulCase all(test::make_weights(format, {outputs}, cols, seed), rows, options, seed + 1);
        if (options.weight_offset == 0) check_few_rows(all, *queue, test::Taken::kHalfInput);
        const std::vector<float> together = all.run(*queue);
        for (const int64_t t : {int64_t{0}, rows / 2, rows - 1}) {
          CAPTURE(t);
          test::MatmulCase one(all.weights, 1, options, 1);
          one.input.assign(&all.input[static_cast<size_t>(t * cols)], &all.input[static_cast<size_t>(t * cols)] + cols);
          one.biases = all.biases;
          one.before[0].assign(&all.before[0][static_cast<size_t>(t * outputs)],
                               &all.before[0][static_cast<size_t>(t * outputs)] + outputs);
          const std::vector<float> alone = one.run(*queue);
          CHECK(std::memcmp(alone.data(), &together[static_cast<size_t>(t * outputs)], alone.size() * sizeof(float)) ==
                0);
        }
      }
  }
}

TEST_CASE("matrices of different formats share one call of few rows on CUDA") {
  Queue* queue = test::cuda_queue();
  if (queue == nullptr) return;
  for (const int64_t rows : {1, 5, 20}) {
    std::vector<std::vector<float>> alone;
    std::vector<test::Weights> weights;
    for (const WeightFormat format : {WeightFormat::kQ4_K, WeightFormat::kQ6_K, WeightFormat::kF16}) {
      weights.push_back(std::move(test::make_weights(format, {21}, 512, 3)[0]));
      alone.push_back(test::MatmulCase({weights.back()}, rows, {.bias = false}, 4).run(*queue));
    }
    std::vector<float> joined;
    for (const std::vector<float>& values : alone) joined.insert(joined.end(), values.begin(), values.end());
    CHECK(test::MatmulCase(weights, rows, {.bias = false}, 4).run(*queue) == joined);
  }
}

}  // namespace ocellus
