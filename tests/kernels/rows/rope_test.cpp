#include "kernels/rows/rope.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

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

/// The coordinates of pairs as Qwen3-VL's authors give them: (t h w t h w ... t t), or one section after the other.
std::vector<int32_t> coordinates_of(const RopeSections& sections) {
  std::vector<int32_t> pairs;
  if (!sections.interleaved) {
    for (int32_t axis = 0; axis < 3; ++axis)
      pairs.insert(pairs.end(), static_cast<size_t>(sections.counts[axis]), axis);
    return pairs;
  }
  pairs.resize(static_cast<size_t>(sections.counts[0] + sections.counts[1] + sections.counts[2]));
  for (int32_t axis = 1; axis < 3; ++axis)
    for (int32_t i = 0; i < sections.counts[axis]; ++i) pairs[static_cast<size_t>(3 * i + axis)] = axis;
  return pairs;
}

void check_sections(const RopeSections& sections, Queue& queue) {
  const std::vector<int32_t> coordinates = coordinates_of(sections);
  const RopeParams params{.rotated = 2 * static_cast<int32_t>(coordinates.size()), .base = 5e6f, .sections = sections};
  const test::Vector<int32_t> positions = {5, 5, 5, 5, 6, 9, 100000, 100037, 100002, 0, 0, 1, 7, 8, 9, -3, -2, -4};
  const int64_t count = static_cast<int64_t>(positions.size()) / 3;
  Guarded<float> angles(count, params.rotated, params.rotated + 2), equal(count, params.rotated, params.rotated);
  RopeAnglesArgs args{.positions = positions.data(),
                      .position_stride = 3,
                      .coordinates = 3,
                      .count = count,
                      .params = params,
                      .angles = angles.view()};
  rope_angles(args, queue);
  args.coordinates = 1;
  args.angles = equal.view();
  rope_angles(args, queue);
  REQUIRE(queue.finish().ok());
  CHECK(angles.intact());
  for (int64_t t = 0; t < count; ++t) {
    for (int64_t i = 0; i < params.rotated / 2; ++i) {
      const int32_t axis = coordinates[static_cast<size_t>(i)];
      const double a = angle(params, positions[static_cast<size_t>(3 * t + axis)], i);
      REQUIRE(std::abs(angles.at(t, 2 * i) - std::cos(a)) < 1e-7);
      REQUIRE(std::abs(angles.at(t, 2 * i + 1) - std::sin(a)) < 1e-7);
      const double time = angle(params, positions[static_cast<size_t>(3 * t)], i);
      REQUIRE(std::abs(equal.at(t, 2 * i) - std::cos(time)) < 1e-7);
    }
  }
}

TEST_CASE("pairs turn by the coordinate of their section") {
  test::for_each_backend([&](Queue& queue) {
    check_sections({.counts = {24, 20, 20}, .interleaved = true}, queue);  // Qwen3-VL
    check_sections({.counts = {11, 11, 10}, .interleaved = true}, queue);  // Qwen3.5
    check_sections({.counts = {6, 5, 5}, .interleaved = true}, queue);
    check_sections({.counts = {16, 24, 24}}, queue);  // Qwen2-VL
    check_sections({.counts = {4, 6, 6}}, queue);
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
        const int64_t quarter = rotated / 4, of_half = i / std::max<int64_t>(quarter, 1) * quarter;
        const bool adjacent = pairing == RopePairing::kAdjacent, quarters = pairing == RopePairing::kQuarters;
        const int64_t first = head * dim + (adjacent ? 2 * i : quarters ? i + of_half : i);
        const int64_t second = first + (adjacent ? 1 : quarters ? quarter : rotated / 2);
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

TEST_CASE("either half of a head turns by itself if pairs are a quarter apart") {
  test::for_each_backend_and_target([&](Queue& queue) {
    for (const int64_t gap : {0, 8, 11})
      for (const int32_t dim : {8, 16, 64, 72, 80})
        check_rotation({3, 5, dim, dim, gap}, RopePairing::kQuarters, queue);
  });
}

}  // namespace
}  // namespace ocellus
