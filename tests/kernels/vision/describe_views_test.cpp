#include "kernels/vision/describe_views.h"

#include <doctest/doctest.h>

#include <bit>
#include <vector>

#include "kernels/base/hash_term.h"
#include "platform/round_up.h"
#include "tests/support/device.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Guarded;

struct DescribeCase {
  int32_t views, planes, height, width, square;
};

/// Pixels between -1 and 1, rows with a gap.
void check_descriptions(const DescribeCase& c, bool wants_means, test::Random& random, Queue& queue) {
  CAPTURE(c.height);
  CAPTURE(c.width);
  CAPTURE(c.square);
  const int64_t lines = divide_up(c.height, c.square), cols = divide_up(c.width, c.square);
  const int64_t means_count = c.planes * lines * cols;
  Guarded<float> pixels(int64_t{c.views} * c.planes * c.height, c.width, c.width + 3);
  for (int64_t y = 0; y < pixels.view().rows; ++y)
    for (int64_t x = 0; x < c.width; ++x) pixels.at(y, x) = random.uniform(-1, 1);
  Guarded<uint64_t> hashes(1, c.views);
  Guarded<float> means(wants_means ? c.views : 0, means_count, means_count + 2);
  for (int64_t view = 0; view < c.views; ++view) hashes.at(0, view) = 1000;
  describe_views({.pixels = pixels.view(),
                  .height = c.height,
                  .square = c.square,
                  .hashes = hashes.view(),
                  .means = wants_means ? means.view() : DeviceView<float>()},
                 queue);
  REQUIRE(queue.finish().ok());
  CHECK(hashes.intact());
  CHECK(means.intact());
  for (int64_t view = 0; view < c.views; ++view) {
    uint64_t hash = 1000;
    std::vector<double> sums(static_cast<size_t>(means_count)), counts(sums);
    for (int64_t row = 0; row < int64_t{c.planes} * c.height; ++row) {
      for (int64_t x = 0; x < c.width; ++x) {
        const float value = pixels.at(view * c.planes * c.height + row, x);
        hash += hash_term(static_cast<uint32_t>(row * c.width + x), std::bit_cast<uint32_t>(value));
        const int64_t line = row / c.height * lines + row % c.height / c.square;
        const auto at = static_cast<size_t>(line * cols + x / c.square);
        sums[at] += static_cast<double>(value);
        counts[at] += 1;
      }
    }
    REQUIRE(hashes.at(0, view) == hash);
    for (int64_t i = 0; wants_means && i < means_count; ++i) {
      const auto at = static_cast<size_t>(i);
      REQUIRE(static_cast<double>(means.at(view, i)) == doctest::Approx(sums[at] / counts[at]).epsilon(1e-5));
    }
  }
}

}  // namespace

TEST_CASE("describe_views adds up the hash of all pixels and the mean of every square, cut ones too") {
  test::for_each_backend([](Queue& queue) {
    test::Random random(3);
    for (const DescribeCase& c :
         {DescribeCase{1, 3, 16, 16, 16}, DescribeCase{3, 3, 45, 61, 14}, DescribeCase{2, 6, 28, 56, 14},
          DescribeCase{1, 3, 1, 300, 7}, DescribeCase{1, 6, 130, 3, 16}, DescribeCase{2, 3, 96, 128, 32}})
      for (const bool wants_means : {true, false}) check_descriptions(c, wants_means, random, queue);
  });
}

TEST_CASE("describe_views tells views apart that differ in one bit, one place or a sign of zero") {
  test::for_each_backend([](Queue& queue) {
    constexpr int32_t kSide = 32;
    const auto hash_of = [&](int64_t at, float value) {
      Guarded<float> pixels(3 * kSide, kSide);
      std::fill_n(pixels.data(), 3 * kSide * kSide, 0.0f);
      pixels.data()[at] = value;
      Guarded<uint64_t> hash(1, 1);
      hash.at(0, 0) = 0;
      describe_views({.pixels = pixels.view(), .height = kSide, .hashes = hash.view(), .means = {}}, queue);
      REQUIRE(queue.finish().ok());
      return hash.at(0, 0);
    };
    const uint64_t zero = hash_of(0, 0.0f);
    CHECK(hash_of(5, 0.0f) == zero);
    CHECK(hash_of(5, -0.0f) != zero);
    CHECK(hash_of(5, 1.0f) != zero);
    CHECK(hash_of(5, 1.0f) != hash_of(6, 1.0f));
    CHECK(hash_of(5, 1.0f) != hash_of(5, std::bit_cast<float>(std::bit_cast<uint32_t>(1.0f) + 1)));
  });
}

}  // namespace ocellus
