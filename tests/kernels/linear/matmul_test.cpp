// matmul on the CPU; matmul_many_rows_test.cpp has CUDA.
#include "kernels/linear/matmul.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernels/base/highway_targets.h"
#include "tests/kernels/linear/matmul_case.h"
#include "tests/support/pairs.h"

namespace ocellus {
namespace {

constexpr int64_t kInputRows[] = {1, 2, 3, 7, 8, 9, 33};

using test::activated;
using test::addend;
using test::make_weights;
using test::MatmulCase;
using test::MatmulOptions;

std::vector<float> run_on_cpu(const MatmulCase& c, int threads, CpuMath math = CpuMath::kF16) {
  test::TestQueue queue(threads);
  queue->set_cpu_math(math);
  return c.run(*queue);
}

// Inputs rounded as the contract says: int8 with one scale per 32. All zero for plain formats, which do not round.
struct RoundedInput {
  explicit RoundedInput(const MatmulCase& c)
      : codes(static_cast<size_t>(c.rows * c.cols)), scales(codes.size() / 32 + 1) {
    if (!is_block_format(c.weights[0].format)) return;
    for (size_t g = 0; g < codes.size() / 32; ++g) {
      const auto t = static_cast<int64_t>(g) / (c.cols / 32), first = static_cast<int64_t>(g) % (c.cols / 32) * 32;
      float largest = 0.0f;
      for (int64_t i = first; i < first + 32; ++i) largest = std::max(largest, std::abs(c.x(t, i)));
      scales[g] = largest / 127.0f;
      const float inverse = largest == 0.0f ? 0.0f : 127.0f / largest;
      for (int64_t i = first; i < first + 32; ++i)
        codes[static_cast<size_t>(t * c.cols + i)] = static_cast<int>(std::nearbyint(c.x(t, i) * inverse));
    }
  }
  std::vector<int> codes;
  std::vector<float> scales;
};

struct Expected {
  double of_rounded, of_exact;  // outputs for the rounded inputs, where only the float sum over groups differs, and for
  double tolerance, moved;      // the inputs as they are; how far from each an output may lie
  double energy;
};

// True if the target in use multiplies the case's weights as pairs of bf16.
bool takes_pairs(const MatmulCase& c, CpuMath math = CpuMath::kF16) {
  return test::takes_pairs(c.weights[0].format, c.rows, math);
}
bool takes_parts(const MatmulCase& c) { return test::takes_parts(c.weights[0].format, c.rows); }

// The plain reference: weights decoded, everything else in double.
std::vector<Expected> reference(const MatmulCase& c, bool pairs) {
  const bool coded = is_block_format(c.weights[0].format);
  const double plain_error = !pairs && takes_parts(c) ? test::kPartsError : 2e-6;
  const RoundedInput rounded(c);
  std::vector<Expected> all;
  for (size_t matrix = 0; matrix < c.weights.size(); ++matrix) {
    const std::vector<float> decoded = c.weights[matrix].decoded();
    const int64_t size = c.weights[matrix].rows;
    for (int64_t t = 0; t < c.rows; ++t)
      for (int64_t n = 0; n < size; ++n) {
        double exact = 0.0, expected = 0.0, magnitude = 0.0, energy = 0.0, rounding = 0.0;
        for (int64_t i = 0; i < c.cols; ++i) {
          const double w = decoded[static_cast<size_t>(n * c.cols + i)];
          const double x = c.x(t, i);
          const auto position = static_cast<size_t>(t * c.cols + i);
          const double scale = coded ? rounded.scales[position / 32] : 0.0;
          const double x_used = pairs ? test::as_bf16(c.x(t, i)) : coded ? scale * rounded.codes[position] : x;
          const double w_used = pairs ? test::as_bf16(static_cast<float>(w)) : w;
          exact += w * x;
          expected += w_used * x_used;
          magnitude += std::abs(w_used * x_used);
          energy += w * x * w * x;
          rounding += std::abs(w) * (pairs ? std::abs(x) * 0x1.01p-7 : scale * 0.5);
        }
        const test::Addend extra = addend(c, matrix, t, n);
        const bool plain = c.options.activation == Activation::kNone;
        // Activations have slopes up to 1.13, and errors of their own below 1e-6.
        const double tolerance =
            (plain ? 1.0 : 1.75) * plain_error * (magnitude + extra.magnitude) + (plain ? 0.0 : 1e-6);
        all.push_back({activated(c.options.activation, expected + extra.value),
                       activated(c.options.activation, exact + extra.value), tolerance,
                       rounding * 1.131 + tolerance,  // no input moved by more than half a step
                       energy});
      }
  }
  return all;
}

void check_outputs(const std::vector<float>& actual, const std::vector<Expected>& expected, double rounding) {
  REQUIRE(actual.size() == expected.size());
  size_t wrong = 0;
  double error_sum = 0.0, size_sum = 0.0, worst = 0.0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const Expected& e = expected[i];
    const double error = std::abs(actual[i] - e.of_rounded), moved = actual[i] - e.of_exact;
    wrong += !(error <= e.tolerance);
    worst = std::max(worst, error / (e.tolerance + 1e-30));
    wrong += !(std::abs(moved) <= e.moved);
    error_sum += moved * moved;
    size_sum += e.energy;
  }
  CHECK_MESSAGE(wrong == 0,
                wrong << " of " << 2 * actual.size() << " comparisons fail, worst error " << worst << " tolerances");
  // Together the errors are as small as independent roundings make them: of 1/254 of a group's largest input, or of
  // bf16.
  CHECK(std::sqrt(error_sum) <= rounding * std::sqrt(size_sum) + 1e-5);
}

double rounding_of(const MatmulCase& c, bool pairs) {
  return pairs ? 6e-3 : is_block_format(c.weights[0].format) ? 3e-2 : takes_parts(c) ? 2e-5 : 1e-5;
}

void check_against_reference(const MatmulCase& c, const std::vector<float>& actual) {
  const bool pairs = takes_pairs(c);
  check_outputs(actual, reference(c, pairs), rounding_of(c, pairs));
}

std::vector<int64_t> columns_for(WeightFormat format) {
  if (!is_block_format(format)) return {1, 7, 64, 67, 131};
  if (format_info(format).block_elements == 256) return {256, 768};
  return {32, 64, 96, 544};
}

// Calls check() with every format, number of input rows and shape; the options vary with the shape so that all
// combinations occur.
template <class Check>
void for_all_shapes(Check check) {
  uint64_t seed = 1;
  const auto check_format = [&](WeightFormat format) {
    for (const int64_t cols : columns_for(format))
      for (const int64_t rows : kInputRows)
        for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{1}, {5, 16}, {33, 3, 20}}) {
          CAPTURE(std::string(format_info(format).name));
          CAPTURE(cols);
          CAPTURE(rows);
          CAPTURE(sizes.size());
          if (test::skip(++seed)) continue;
          MatmulOptions options{.bias = seed % 2 == 0, .accumulate = seed % 3 == 0, .gap = seed % 5 < 2 ? 3 : 0};
          if (!options.accumulate) options.activation = static_cast<Activation>(seed / 3 % 5);
          check(MatmulCase(make_weights(format, sizes, cols, seed), rows, options, seed + 1000));
        }
  };
  for (int i = 0; i < kWeightFormatCount; ++i) check_format(static_cast<WeightFormat>(i));
}

// All instruction sets this machine has, best first; as bits.
std::vector<int64_t> targets() {
  std::vector<int64_t> bits;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) bits.push_back(target);
  if (test::is_small_run()) bits.resize(1);
  return bits;
}

struct OnlyTarget {
  explicit OnlyTarget(int64_t bit) { test::hold_targets(bit); }
  ~OnlyTarget() { test::hold_targets(0); }
};

}  // namespace

TEST_CASE("products agree with the double-precision reference for every format and shape") {
  for_all_shapes([](const MatmulCase& c) { check_against_reference(c, run_on_cpu(c, 2)); });
}

TEST_CASE("products agree with the reference on every instruction set of this machine") {
  for_all_shapes([](const MatmulCase& c) {
    const bool rounds = takes_pairs(c, CpuMath::kBf16);
    const std::vector<Expected> of_pairs = rounds ? reference(c, true) : std::vector<Expected>();
    const std::vector<Expected> expected = reference(c, false);
    for (const int64_t bit : targets()) {
      const std::string target = hwy::TargetName(bit);
      CAPTURE(target);
      const OnlyTarget only(bit);
      const bool pairs = takes_pairs(c);
      check_outputs(run_on_cpu(c, 2), pairs ? of_pairs : expected, rounding_of(c, pairs));
      if (pairs || !takes_pairs(c, CpuMath::kBf16)) continue;
      INFO("as bf16");
      check_outputs(run_on_cpu(c, 2, CpuMath::kBf16), of_pairs, rounding_of(c, true));
    }
  });
}

TEST_CASE("the number of threads does not change a bit") {
  for (const WeightFormat format :
       {WeightFormat::kF16, WeightFormat::kQ8_0, WeightFormat::kQ2_K, WeightFormat::kQ4_K, WeightFormat::kQ6_K})
    for (const int64_t rows : {1, 3, 9, 70}) {
      CAPTURE(std::string(format_info(format).name));
      CAPTURE(rows);
      const MatmulCase c(make_weights(format, {200, 40, 17}, 256, 5), rows, {.bias = true, .accumulate = true}, 6);
      const std::vector<float> alone = run_on_cpu(c, 1);
      for (const int threads : {2, 3}) {
        const std::vector<float> together = run_on_cpu(c, threads);
        CHECK(std::memcmp(alone.data(), together.data(), alone.size() * sizeof(float)) == 0);
      }
    }
}

TEST_CASE("a row's result does not depend on its neighbours in a large call") {
  const auto weights = make_weights(WeightFormat::kQ8_0, {20}, 96, 9);
  const MatmulCase c(weights, 33, {}, 10);
  MatmulCase shorter(weights, 13, {}, 10);
  shorter.input = c.input;
  const std::vector<float> all = run_on_cpu(c, 2), some = run_on_cpu(shorter, 2);
  CHECK(std::memcmp(all.data(), some.data(), some.size() * sizeof(float)) == 0);
}

TEST_CASE("few rows have the outputs that each has alone, in every format and on every instruction set") {
  for (int format = 0; format < kWeightFormatCount; ++format) {
    const auto weights = make_weights(static_cast<WeightFormat>(format), {37}, 512, 9);
    const MatmulCase together(weights, kMostRowsAlike, {}, 10);
    for (const int64_t bit : targets()) {
      const OnlyTarget only(bit);
      const std::vector<float> all = run_on_cpu(together, 2);
      for (int64_t t = 0; t < together.rows; ++t) {
        CAPTURE(std::string(format_info(static_cast<WeightFormat>(format)).name));
        CAPTURE(std::string(hwy::TargetName(bit)));
        CAPTURE(t);
        MatmulCase alone(weights, 1, {}, 10);
        alone.input.assign(&together.input[static_cast<size_t>(t * together.cols)],
                           &together.input[static_cast<size_t>(t * together.cols)] + together.cols);
        const std::vector<float> own = run_on_cpu(alone, 2);
        CHECK(std::memcmp(own.data(), &all[static_cast<size_t>(t * 37)], own.size() * sizeof(float)) == 0);
      }
    }
  }
}

TEST_CASE("matrices of different formats share one call") {
  test::Random random(11);
  std::vector<test::Weights> weights;
  for (const WeightFormat format : {WeightFormat::kQ4_K, WeightFormat::kQ6_K, WeightFormat::kQ8_0})
    weights.push_back(test::random_weights(format, 21, 512, random));
  for (const int64_t rows : {1, 5, 16}) {
    const MatmulCase c(weights, rows, {.bias = true}, 12);
    check_against_reference(c, run_on_cpu(c, 2));
  }
}

TEST_CASE("a plain and a block matrix share one call") {
  test::Random random(13);
  const test::Weights coded = test::random_weights(WeightFormat::kQ8_0, 18, 64, random);
  const test::Weights plain = test::random_weights(WeightFormat::kF16, 18, 64, random);
  for (const int64_t rows : {1, 6}) {
    const std::vector<float> both = run_on_cpu(MatmulCase({coded, plain}, rows, {}, 14), 2);
    const std::vector<float> first = run_on_cpu(MatmulCase({coded}, rows, {}, 14), 2);
    const std::vector<float> second = run_on_cpu(MatmulCase({plain}, rows, {}, 14), 2);
    std::vector<float> joined = first;
    joined.insert(joined.end(), second.begin(), second.end());
    CHECK(both == joined);
  }
}

TEST_CASE("extreme codes give exact sums on every instruction set") {
  // All weights -128 or 127 at scale 1, all inputs plus or minus 127 at scale 1: sums are integers below 2^24.
  for (const int64_t bit : targets()) {
    const OnlyTarget only(bit);
    for (const int code : {-128, 127, -127})
      for (const int64_t rows : {1, 9})
        for (const float sign : {1.0f, -1.0f}) {
          std::vector<test::Weights> weights = make_weights(WeightFormat::kQ8_0, {17}, 320, 1);
          for (size_t at = 0; at < weights[0].bytes.size(); at += 34) {
            test::write_half(&weights[0].bytes[at], 1.0f);
            std::memset(&weights[0].bytes[at + 2], code, 32);
          }
          MatmulCase c(weights, rows, {}, 2);
          for (float& value : c.input) value = sign * 127.0f;
          for (const float value : run_on_cpu(c, 1)) CHECK(value == sign * 127.0f * static_cast<float>(code) * 320.0f);
        }
  }
}

TEST_CASE("groups too small for a scale count as zero and do not poison the sum") {
  MatmulCase c(make_weights(WeightFormat::kQ8_0, {4}, 64, 3), 1, {}, 4);
  for (size_t i = 0; i < 32; ++i) c.input[i] = 1e-40f;
  for (size_t i = 32; i < 64; ++i) c.input[i] = 0.0f;
  for (const float value : run_on_cpu(c, 1)) CHECK(value == 0.0f);
}

TEST_CASE("infinite and undefined inputs do no harm to other rows") {
  for (const int64_t bit : targets()) {
    const OnlyTarget only(bit);
    for (const WeightFormat format : {WeightFormat::kF16, WeightFormat::kQ8_0, WeightFormat::kQ4_K}) {
      MatmulCase c(make_weights(format, {20}, 256, 3), 9, {}, 4);
      const std::vector<float> sound = run_on_cpu(c, 2);
      c.input[256 * 8 + 3] = std::numeric_limits<float>::infinity();
      c.input[256 * 8 + 70] = std::numeric_limits<float>::quiet_NaN();
      c.input[256 * 8 + 140] = -std::numeric_limits<float>::max();
      const std::vector<float> actual = run_on_cpu(c, 2);
      CHECK(std::memcmp(sound.data(), actual.data(), 8 * 20 * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("an input that is not a number or infinite leaves no finite output of its row") {
  for (const int64_t bit : targets()) {
    const OnlyTarget only(bit);
    for (int i = 0; i < kWeightFormatCount; ++i)
      for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
        for (const int64_t rows : {1, 9}) {
          const auto format = static_cast<WeightFormat>(i);
          CAPTURE(std::string(format_info(format).name));
          CAPTURE(bad);
          MatmulCase c(make_weights(format, {20}, 256, 3), rows, {}, 4);
          c.input[static_cast<size_t>(256 * (rows - 1) + 3)] = bad;
          const std::vector<float> outputs = run_on_cpu(c, 2);
          for (size_t n = outputs.size() - 20; n < outputs.size(); ++n) CHECK(!std::isfinite(outputs[n]));
        }
  }
}

TEST_CASE("too little or unaligned scratch is refused, and sums with an activation or in f16") {
  struct Call {
    int64_t offset = 0, missing = 0;  // misalignment and shortage of the scratch
    bool accumulate = false;
    Activation activation = Activation::kNone;
    bool halves = false;
  };
  test::for_each_backend([](Queue& queue) {
    const test::Weights weights = std::move(make_weights(WeightFormat::kQ8_0, {4}, 64, 3)[0]);
    const test::Vector<uint8_t> bytes(weights.bytes.begin(), weights.bytes.end());
    test::Vector<float> input(64, 1.0f);
    const int64_t needed = matmul_scratch_bytes(1, 64, 4, queue.traits());
    test::Guarded<std::byte> scratch(1, needed + 64);
    const auto check = [&](const Call& call, bool sound) {
      test::Guarded<float> floats(1, 4);
      test::Guarded<Half> halves(1, 4);
      MatmulArgs args;
      args.input = DeviceView<float>(input.data(), 1, 64);
      args.weights[0] = {bytes.data(), weights.format, weights.rows, weights.cols};
      args.outputs[0] = call.halves ? ActivationView(halves.view()) : ActivationView(floats.view());
      args.scratch = {scratch.data() + call.offset, 1, needed - call.missing};
      args.accumulate = call.accumulate;
      args.activation = call.activation;
      matmul(args, queue);
      CHECK(queue.finish().ok() == sound);
      if (!sound) CHECK(queue.status().code() == Code::kInternal);
      CHECK(floats.untouched_count() + halves.untouched_count() == (sound ? 4 : 8));
      queue.clear();
    };
    check({.missing = 1}, false);
    check({.offset = 1}, false);
    check({.accumulate = true, .activation = Activation::kSilu}, false);
    check({.accumulate = true, .halves = true}, false);
    check({.accumulate = true}, true);
    check({}, true);
  });
}

}  // namespace ocellus
