#include "kernels/rope.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/guard.h"
#include "tests/support/random.h"
#include "tests/support/test_queue.h"

namespace ocellus {
namespace {

using test::Guarded;
using test::Random;

double angle(const RopeParams& params, int32_t position, int64_t pair) {
  const double power = -2.0 * static_cast<double>(pair) / params.rotated;
  const double factor = params.factors == nullptr ? 1.0 : static_cast<double>(params.factors[pair]);
  return position * static_cast<double>(params.position_scale) * std::pow(static_cast<double>(params.base), power) /
         factor;
}

TEST_CASE("rope angles equal their formula to the last bits, at far positions too") {
  Random random(1);
  const std::vector<float> factors = random.uniforms(64, 1.0f, 8.0f);
  std::vector<int32_t> positions = {0, 1, 2, 1000, 131071, -5};
  for (int32_t i = 0; i < 200; ++i) positions.push_back(i);
  const int64_t count = static_cast<int64_t>(positions.size());
  for (const int threads : {1, 3}) {
    test::TestQueue queue(threads);
    for (const int32_t rotated : {2, 24, 64, 128}) {
      for (const bool scaled : {false, true}) {
        RopeParams params{.rotated = rotated};
        if (scaled) {
          params.base = 500000.0f;
          params.position_scale = 0.25f;
          params.factors = factors.data();
        }
        Guarded<float> angles(count, rotated, rotated + 2);
        rope_angles({.positions = positions.data(), .count = count, .params = params, .angles = angles.view()}, *queue);
        CHECK(angles.intact());
        for (int64_t t = 0; t < count; ++t) {
          for (int64_t i = 0; i < rotated / 2; ++i) {
            const double a = angle(params, positions[static_cast<size_t>(t)], i);
            REQUIRE(std::abs(angles.at(t, 2 * i) - std::cos(a)) < 1e-7);
            REQUIRE(std::abs(angles.at(t, 2 * i + 1) - std::sin(a)) < 1e-7);
          }
        }
      }
    }
  }
}

void check_rotation(int64_t rows, int64_t heads, int32_t dim, int32_t rotated, RopePairing pairing, Queue& queue) {
  CAPTURE(dim);
  CAPTURE(rotated);
  const RopeParams params{.pairing = pairing, .rotated = rotated};
  const int64_t width = heads * dim;
  Random random(static_cast<uint64_t>(dim + rotated));
  Guarded<float> values(rows, width, width + 11), angles(rows, rotated, rotated + 1);
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t i = 0; i < width; ++i) values.at(t, i) = random.normal();
    for (int64_t i = 0; i < rotated; ++i) angles.at(t, i) = random.uniform();
  }
  const Guarded<float> x = values;
  rotate({.values = values.view(), .head_dim = dim, .params = params, .angles = angles.view()}, queue);
  CHECK(values.intact());
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t i = 0; i < rotated / 2; ++i) {
        const int64_t first = head * dim + (pairing == RopePairing::kAdjacent ? 2 * i : i);
        const int64_t second = pairing == RopePairing::kAdjacent ? first + 1 : first + rotated / 2;
        const double a = x.at(t, first), b = x.at(t, second), c = angles.at(t, 2 * i), s = angles.at(t, 2 * i + 1);
        REQUIRE(std::abs(values.at(t, first) - (a * c - b * s)) < 1e-6);
        REQUIRE(std::abs(values.at(t, second) - (a * s + b * c)) < 1e-6);
      }
      for (int64_t e = rotated; e < dim; ++e) REQUIRE(values.at(t, head * dim + e) == x.at(t, head * dim + e));
    }
  }
}

TEST_CASE("rotation turns the right pairs and leaves the other channels, on every target") {
  test::TestQueue queue(2);
  test::for_each_target([&] {
    for (const RopePairing pairing : {RopePairing::kAdjacent, RopePairing::kHalves}) {
      for (const int32_t dim : {8, 64, 72, 80, 128}) {
        check_rotation(3, 3, dim, dim, pairing, *queue);
        check_rotation(2, 1, dim, dim / 4 * 2, pairing, *queue);
      }
      check_rotation(1, 12, 64, 64, pairing, *queue);
      check_rotation(200, 4, 64, 2, pairing, *queue);
    }
  });
}

}  // namespace
}  // namespace ocellus
