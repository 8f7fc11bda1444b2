#include "kernels/rows/rope.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/device.h"
#include "tests/support/guard.h"
#include "tests/support/random.h"

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

void check_angles(const test::Vector<int32_t>& positions, int64_t stride, const RopeParams& params, Queue& queue) {
  CAPTURE(params.rotated);
  CAPTURE(stride);
  const int64_t count = static_cast<int64_t>(positions.size()) / stride;
  Guarded<float> angles(count, params.rotated, params.rotated + 2);
  rope_angles({.positions = positions.data(),
               .position_stride = stride,
               .count = count,
               .params = params,
               .angles = angles.view()},
              queue);
  REQUIRE(queue.finish().ok());
  CHECK(angles.intact());
  for (int64_t t = 0; t < count; ++t) {
    for (int64_t i = 0; i < params.rotated / 2; ++i) {
      const double a = angle(params, positions[static_cast<size_t>(t * stride)], i);
      REQUIRE(std::abs(angles.at(t, 2 * i) - std::cos(a)) < 1e-7);
      REQUIRE(std::abs(angles.at(t, 2 * i + 1) - std::sin(a)) < 1e-7);
    }
  }
}

TEST_CASE("rope angles equal their formula to the last bits, at far positions too") {
  Random random(1);
  const test::Vector<float> factors = test::visible(random.uniforms(80, 1.0f, 8.0f));
  test::Vector<int32_t> positions = {0, 1, 2, 1000, 131071, -5};
  for (int32_t i = 0; i < 201; ++i) positions.push_back(i);
  test::for_each_backend([&](Queue& queue) {
    for (const int32_t rotated : {2, 24, 64, 128, 160}) {
      RopeParams params{.rotated = rotated};
      check_angles(positions, 1, params, queue);
      params.base = 500000.0f;
      params.position_scale = 0.25f;
      params.factors = factors.data();
      check_angles(positions, 1, params, queue);
      check_angles(positions, 3, params, queue);
      check_angles({77}, 1, params, queue);
    }
  });
}

struct Heads {
  int64_t rows;
  int64_t heads;
  int32_t dim;
  int32_t rotated;
  int64_t gap;  // between rows; a multiple of 8 allows wide accesses
};

void check_rotation(const Heads& shape, RopePairing pairing, Queue& queue) {
  const auto [rows, heads, dim, rotated, gap] = shape;
  CAPTURE(dim);
  CAPTURE(rotated);
  CAPTURE(gap);
  const RopeParams params{.pairing = pairing, .rotated = rotated};
  const int64_t width = heads * dim;
  Random random(static_cast<uint64_t>(dim + rotated));
  test::Activations values(queue, rows, width, width + gap);
  Guarded<float> angles(rows, rotated, rotated + gap);
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t i = 0; i < width; ++i) values.set(t, i, random.normal());
    for (int64_t i = 0; i < rotated; ++i) angles.at(t, i) = random.uniform();
  }
  const test::Activations x = values;
  rotate({.values = values.view(), .head_dim = dim, .params = params, .angles = angles.view()}, queue);
  REQUIRE(queue.finish().ok());
  CHECK(values.intact());
  const auto close = [&](double got, double expected) {
    return std::abs(got - expected) < 1e-6 + values.rounding(expected);
  };
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t i = 0; i < rotated / 2; ++i) {
        const int64_t first = head * dim + (pairing == RopePairing::kAdjacent ? 2 * i : i);
        const int64_t second = pairing == RopePairing::kAdjacent ? first + 1 : first + rotated / 2;
        const double a = x.get(t, first), b = x.get(t, second), c = angles.at(t, 2 * i), s = angles.at(t, 2 * i + 1);
        REQUIRE(close(values.get(t, first), a * c - b * s));
        REQUIRE(close(values.get(t, second), a * s + b * c));
      }
      for (int64_t e = rotated; e < dim; ++e) REQUIRE(values.get(t, head * dim + e) == x.get(t, head * dim + e));
    }
  }
}

TEST_CASE("rotation turns the right pairs and leaves the other channels, on every target") {
  test::for_each_backend_and_target([&](Queue& queue) {
    for (const RopePairing pairing : {RopePairing::kAdjacent, RopePairing::kHalves}) {
      for (const int64_t gap : {0, 8, 11}) {
        for (const int32_t dim : {8, 64, 72, 80, 128}) {
          check_rotation({3, 3, dim, dim, gap}, pairing, queue);
          check_rotation({2, 1, dim, dim / 4 * 2, gap}, pairing, queue);
        }
        check_rotation({1, 12, 64, 64, gap}, pairing, queue);
        check_rotation({3, 70, 96, 64, gap}, pairing, queue);
        check_rotation({200, 4, 64, 2, gap}, pairing, queue);
      }
    }
  });
}

}  // namespace
}  // namespace ocellus
