// Random weights: the deviation asked for, in every format, and the same bits wherever and however they are made.
#include "kernels/linear/fill_weights.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/support/device.h"

namespace ocellus {
namespace {

struct Filled {
  std::vector<uint8_t> bytes;
  std::vector<float> values;
};

Filled fill(Queue& queue, FillWeightsArgs args) {
  const int64_t row = row_bytes(args.format, args.cols);
  test::Guarded<uint8_t> memory(1, args.rows * row);
  args.data = memory.data();
  fill_weights(args, queue);
  REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
  CHECK(memory.intact());
  Filled filled;
  filled.bytes.assign(memory.data(), memory.data() + args.rows * row);
  filled.values.resize(static_cast<size_t>(args.rows * args.cols));
  for (int64_t i = 0; i < args.rows; ++i)
    decode_row(args.format, filled.bytes.data() + i * row, args.cols, filled.values.data() + i * args.cols);
  return filled;
}

WeightFormat format_at(int i) { return static_cast<WeightFormat>(i); }

TEST_CASE("Weights of every format have the deviation asked for, and are finite") {
  test::for_each_backend([](Queue& queue) {
    for (int i = 0; i < kWeightFormatCount; ++i) {
      CAPTURE(format_info(format_at(i)).name);
      for (const float deviation : {0.5f, 0.02f, 0.0008f}) {
        const Filled filled =
            fill(queue, {.format = format_at(i), .rows = 96, .cols = 768, .deviation = deviation, .seed = 5});
        double sum = 0, squares = 0;
        for (const float value : filled.values) {
          sum += double{value};
          squares += double{value} * double{value};
        }
        const auto count = static_cast<double>(filled.values.size());
        // 73,728 draws: chance moves the deviation by 0.3% and the mean by 0.4% of it. The smallest scales are
        // subnormal in f16, good for 1%; signed codes reach one further down than up.
        CHECK(std::sqrt(squares / count) == doctest::Approx(double{deviation}).epsilon(0.04));
        CHECK(std::fabs(sum / count) < 0.13 * double{deviation});
      }
    }
  });
}

TEST_CASE("Constants are exact") {
  test::for_each_backend([](Queue& queue) {
    for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kBF16})
      for (const float value : fill(queue, {.format = format, .rows = 1, .cols = 577, .mean = 1.0f, .seed = 3}).values)
        REQUIRE(value == 1.0f);
  });
}

TEST_CASE("Bits depend on the seed and the place, not on threads, pieces or the backend") {
  for (int i = 0; i < kWeightFormatCount; ++i) {
    CAPTURE(format_info(format_at(i)).name);
    // More words than one piece of work has; a row of one block at least, an odd number of rows.
    const FillWeightsArgs args = {
        .format = format_at(i), .rows = 1531, .cols = 256, .deviation = 0.1f, .seed = 0x9876543210ull};
    test::TestQueue alone(1);
    const Filled expected = fill(*alone, args);
    test::for_each_backend([&](Queue& queue) {
      CHECK(fill(queue, args).bytes == expected.bytes);
      FillWeightsArgs fewer = args;
      fewer.rows = 7;
      const Filled start = fill(queue, fewer);
      CHECK(std::equal(start.bytes.begin(), start.bytes.end(), expected.bytes.begin()));
      FillWeightsArgs other = args;
      other.seed ^= 1;
      CHECK(fill(queue, other).bytes != expected.bytes);
    });
  }
}

TEST_CASE("A tensor that is filled in parts of whole rows gets the same bytes") {
  test::for_each_backend([](Queue& queue) {
    for (int i = 0; i < kWeightFormatCount; ++i) {
      CAPTURE(format_info(format_at(i)).name);
      const FillWeightsArgs args = {
          .format = format_at(i), .rows = 61, .cols = 256, .deviation = 0.1f, .seed = ~uint64_t{0} - 1};
      const Filled expected = fill(queue, args);
      std::vector<uint8_t> joined;
      for (int64_t row = 0; row < args.rows; row += 24) {
        FillWeightsArgs part = args;
        part.rows = std::min<int64_t>(24, args.rows - row);
        part.seed = seed_at_row(args, row);
        const Filled filled = fill(queue, part);
        joined.insert(joined.end(), filled.bytes.begin(), filled.bytes.end());
      }
      CHECK(joined == expected.bytes);
    }
  });
}

TEST_CASE("The smallest tensors, whose bytes end inside a word") {
  test::for_each_backend([](Queue& queue) {
    for (int i = 0; i < kWeightFormatCount; ++i) {
      CAPTURE(format_info(format_at(i)).name);
      for (const int64_t rows : {1, 3, 5}) {
        const int64_t cols = format_info(format_at(i)).block_elements;
        const Filled filled =
            fill(queue, {.format = format_at(i), .rows = rows, .cols = cols, .deviation = 0.1f, .seed = 11});
        for (const float value : filled.values) CHECK(std::fabs(value) < 0.4f);
      }
    }
  });
}

}  // namespace
}  // namespace ocellus
