#include "kernels/vision/picture_rows.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/support/guard.h"
#include "tests/support/random.h"
#include "tests/support/test_queue.h"

namespace ocellus {
namespace {

using test::Guarded;
using test::Random;

constexpr int32_t kOne = 1 << 22;  // a weight of 1

Guarded<uint8_t> random_bytes(int64_t rows, int64_t cols, Random& random) {
  Guarded<uint8_t> bytes(rows, cols);
  for (int64_t y = 0; y < rows; ++y)
    for (int64_t x = 0; x < cols; ++x) bytes.at(y, x) = static_cast<uint8_t>(random.integer(0, 255));
  return bytes;
}

/// Weights of both signs that add up to at most 1, or a single one just below 2.
std::vector<int32_t> random_weights(int32_t count, Random& random) {
  std::vector<int32_t> weights(static_cast<size_t>(count));
  if (count > 0 && random.integer(0, 3) == 0) {
    weights[static_cast<size_t>(random.integer(0, count - 1))] =
        2 * kOne - 1 - static_cast<int32_t>(random.integer(0, 9));
    return weights;
  }
  for (int32_t& weight : weights) weight = static_cast<int32_t>(random.integer(-kOne, kOne)) / count;
  return weights;
}

uint8_t rounded(double sum) { return static_cast<uint8_t>(std::clamp(std::floor(sum / kOne + 0.5), 0.0, 255.0)); }

void check_along(int32_t source_length, int32_t target_length, int32_t capacity, Random& random) {
  CAPTURE(source_length);
  CAPTURE(target_length);
  CAPTURE(capacity);
  Guarded<FilterWindow> windows(1, target_length);
  Guarded<int16_t> weights(target_length, 2 * AlongFilter::weight_stride(capacity));
  Guarded<uint8_t> channels(3, AlongFilter::channel_stride(source_length));
  const Guarded<uint8_t> row = random_bytes(1, int64_t{3} * source_length, random);
  Guarded<uint8_t> output(1, int64_t{3} * target_length);
  AlongFilter filter = {.source_length = source_length,
                        .target_length = target_length,
                        .capacity = capacity,
                        .windows = windows.data(),
                        .weights = weights.data(),
                        .channels = channels.data()};
  std::vector<uint8_t> expected;
  for (int32_t x = 0; x < target_length; ++x) {
    const auto count = static_cast<int32_t>(random.integer(0, capacity));
    const auto first = static_cast<int32_t>(random.integer(0, source_length - count));
    const std::vector<int32_t> values = random_weights(count, random);
    filter.set(x, {first, count}, values.data());
    for (int64_t c = 0; c < 3; ++c) {
      double sum = 0;
      for (int32_t i = 0; i < count; ++i)
        sum += double{1} * values[static_cast<size_t>(i)] * row.at(0, 3 * (first + i) + c);
      expected.push_back(rounded(sum));
    }
  }
  filter_along(filter, row.data(), output.data());
  CHECK(output.intact());
  CHECK(channels.intact());
  CHECK(weights.intact());
  CHECK(windows.intact());
  CHECK(std::equal(expected.begin(), expected.end(), output.data()));
}

void check_across(int32_t ring_rows, int64_t bytes, Random& random) {
  CAPTURE(ring_rows);
  CAPTURE(bytes);
  const Guarded<uint8_t> ring = random_bytes(ring_rows, bytes, random);
  Guarded<uint8_t> output(1, bytes), added_output(1, bytes);
  Guarded<int32_t> sums(1, bytes);
  const auto first = static_cast<int32_t>(random.integer(0, 100));
  const auto count = static_cast<int32_t>(random.integer(0, ring_rows));
  const std::vector<int32_t> weights = random_weights(count, random);
  filter_across({.ring = ring.data(),
                 .ring_rows = ring_rows,
                 .window = {first, count},
                 .weights = weights.data(),
                 .bytes = bytes},
                output.data());
  std::fill_n(sums.data(), bytes, kOne / 2);
  for (int32_t i = 0; i < count; ++i)
    add_weighted_row(&ring.at((first + i) % ring_rows, 0), weights[static_cast<size_t>(i)], bytes, sums.data());
  round_sums(sums.data(), bytes, added_output.data());
  CHECK(output.intact());
  CHECK(sums.intact());
  CHECK(added_output.intact());
  int64_t wrong = 0;
  for (int64_t j = 0; j < bytes; ++j) {
    double sum = 0;
    for (int32_t i = 0; i < count; ++i)
      sum += double{1} * weights[static_cast<size_t>(i)] * ring.at((first + i) % ring_rows, j);
    wrong += output.at(0, j) != rounded(sum);
    wrong += added_output.at(0, j) != rounded(sum);
  }
  CHECK(wrong == 0);
}

void check_normalised(int64_t pixels, Random& random) {
  CAPTURE(pixels);
  const Guarded<uint8_t> rgb = random_bytes(1, 3 * pixels, random);
  Guarded<float> planes(3, pixels, pixels + 5);
  float* const rows[3] = {&planes.at(0, 0), &planes.at(1, 0), &planes.at(2, 0)};
  const Normalisation norm = {{0.48f, 0.45f, 0.41f}, {0.27f, 0.26f, 0.28f}};
  normalise_row(norm, rgb.data(), pixels, rows);
  CHECK(planes.intact());
  int64_t wrong = 0;
  for (int64_t c = 0; c < 3; ++c)
    for (int64_t x = 0; x < pixels; ++x)
      wrong += planes.at(c, x) != (static_cast<float>(rgb.at(0, 3 * x + c)) / 255.0f - norm.mean[c]) / norm.std[c];
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("filter_along equals plain sums, with windows at both ends and empty ones") {
  Random random(71);
  test::for_each_target([&] {
    for (const auto& [source, target, capacity] : {std::tuple{1, 1, 1},
                                                   {1, 9, 1},
                                                   {2, 3, 2},
                                                   {5, 5, 4},
                                                   {17, 40, 6},
                                                   {31, 16, 15},
                                                   {64, 33, 16},
                                                   {100, 20, 17},
                                                   {333, 50, 33},
                                                   {1000, 7, 250}})
      for (int repeat = 0; repeat < 8; ++repeat) check_along(source, target, capacity, random);
  });
}

TEST_CASE("filter_across and rows added one by one equal plain sums, wherever the ring begins") {
  Random random(72);
  test::for_each_target([&] {
    for (const int32_t ring_rows : {1, 2, 3, 13, 32})
      for (const int64_t bytes : {1, 3, 15, 16, 33, 64, 129, 300, 769}) check_across(ring_rows, bytes, random);
  });
}

TEST_CASE("normalise_row gives every plane its channel") {
  Random random(73);
  test::for_each_target([&] {
    for (const int64_t pixels : {1, 3, 7, 8, 15, 16, 17, 31, 64, 100, 513}) check_normalised(pixels, random);
  });
}

}  // namespace ocellus
