#include "kernels/linear/rmsnorm.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/device.h"
#include "tests/support/guard.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Guarded;
using test::Random;

enum class Place { kActivations, kFloats, kInput, kAdded };

struct Shape {
  int64_t rows;
  int64_t cols;
  int64_t gap = 3;  // between rows; a multiple of 8 allows wide accesses
  bool plain = false;
  float sum_scale = 1.0f;
};

void check_case(const Shape& shape, float size, Place place, Queue& queue) {
  const int64_t rows = shape.rows, cols = shape.cols, gap = shape.gap;
  CAPTURE(rows);
  CAPTURE(cols);
  CAPTURE(gap);
  Random random(static_cast<uint64_t>(rows * 1000 + cols));
  const float epsilon = 1e-5f;
  const test::Vector<float> weight = shape.plain ? test::Vector<float>(static_cast<size_t>(cols), 1.0f)
                                                 : test::visible(random.uniforms(cols, 0.5f, 1.5f));
  Guarded<float> input(rows, cols, cols + gap), floats(rows, cols, cols + 2 * gap);
  test::Activations activations(queue, rows, cols, cols + gap);
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t i = 0; i < cols; ++i) input.at(t, i) = random.normal(size);
  if (place == Place::kAdded)
    for (int64_t t = 0; t < rows; ++t)
      for (int64_t i = 0; i < cols; ++i) floats.at(t, i) = random.normal(size);
  const Guarded<float> x = input, before = floats;
  Guarded<float>& out = place == Place::kInput ? input : floats;
  const bool typed = place == Place::kActivations;
  rmsnorm({.input = input.view(),
           .weight = shape.plain ? nullptr : weight.data(),
           .epsilon = epsilon,
           .output = typed ? activations.view() : ActivationView(out.view()),
           .accumulate = place == Place::kAdded,
           .sum_scale = shape.sum_scale},
          queue);
  REQUIRE(queue.finish().ok());
  CHECK(input.intact());
  CHECK(floats.intact());
  CHECK(activations.intact());
  for (int64_t t = 0; t < rows; ++t) {
    double squares = 0;
    for (int64_t i = 0; i < cols; ++i) squares += static_cast<double>(x.at(t, i)) * x.at(t, i);
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(cols) + static_cast<double>(epsilon));
    for (int64_t i = 0; i < cols; ++i) {
      const double added = place == Place::kAdded ? static_cast<double>(before.at(t, i)) : 0.0;
      const double normed = x.at(t, i) * scale * static_cast<double>(weight[static_cast<size_t>(i)]);
      const double expected = place == Place::kAdded ? (added + normed) * static_cast<double>(shape.sum_scale) : normed;
      const double tolerance =
          3e-6 * (std::abs(normed) + std::abs(added) + 1e-3) + (typed ? activations.rounding(expected) : 0.0);
      const float got = typed ? activations.get(t, i) : out.at(t, i);
      REQUIRE(std::abs(got - expected) <= tolerance);
    }
  }
}

TEST_CASE("rmsnorm equals its formula for every length and address of row, on every target") {
  test::for_each_backend_and_target([&](Queue& queue) {
    for (const Place place : {Place::kActivations, Place::kFloats, Place::kInput, Place::kAdded}) {
      for (const int64_t cols : {1, 3, 15, 16, 17, 64, 100, 512, 960, 4099}) check_case({3, cols}, 1.0f, place, queue);
      for (const int64_t cols : {4, 64, 576, 960, 4096}) check_case({3, cols, 8}, 1.0f, place, queue);
    }
    check_case({1, 576, 0}, 1.0f, Place::kInput, queue);
    check_case({513, 72}, 100.0f, Place::kInput, queue);
    check_case({513, 72, 0}, 100.0f, Place::kActivations, queue);
    check_case({4, 64}, 1e-4f, Place::kFloats, queue);  // epsilon matters
  });
}

TEST_CASE("rmsnorm without a weight, and with a sum that is scaled") {
  test::for_each_backend_and_target([&](Queue& queue) {
    for (const int64_t gap : {3, 8})
      for (const int64_t cols : {1, 17, 64, 256, 1536}) {
        check_case({.rows = 3, .cols = cols, .gap = gap, .plain = true}, 1.0f, Place::kFloats, queue);
        check_case({.rows = 3, .cols = cols, .gap = gap, .plain = true}, 1.0f, Place::kActivations, queue);
        check_case({.rows = 3, .cols = cols, .gap = gap, .sum_scale = 0.3f}, 1.0f, Place::kAdded, queue);
      }
  });
}

TEST_CASE("rmsnorm takes rows that are too long for registers") {
  test::for_each_backend([&](Queue& queue) {
    for (const int64_t cols : {4100, 8192, 8196, 20000}) check_case({2, cols, 8}, 1.0f, Place::kActivations, queue);
  });
}

TEST_CASE("a row's norm does not depend on the rows beside it") {
  constexpr int64_t kRows = 300, kCols = 960;
  test::for_each_backend([&](Queue& queue) {
    Random random(9);
    const test::Vector<float> weight = test::visible(random.uniforms(kCols, 0.5f, 1.5f));
    Guarded<float> input(kRows, kCols), together(kRows, kCols), alone(1, kCols);
    for (int64_t t = 0; t < kRows; ++t)
      for (int64_t i = 0; i < kCols; ++i) input.at(t, i) = random.normal();
    rmsnorm({.input = input.view(), .weight = weight.data(), .epsilon = 1e-5f, .output = together.view()}, queue);
    const DeviceView<const float> last = input.view().slice_rows(kRows - 1, 1);
    rmsnorm({.input = last, .weight = weight.data(), .epsilon = 1e-5f, .output = alone.view()}, queue);
    REQUIRE(queue.finish().ok());
    for (int64_t i = 0; i < kCols; ++i) REQUIRE(alone.at(0, i) == together.at(kRows - 1, i));
  });
}

struct Heads {
  int64_t rows, query_heads, key_heads;
  int32_t dim;
  int64_t gap = 3;  // between rows; a multiple of 8 allows wide accesses
  float size = 1.0f;
  float query_scale = 1.0f;
};

/// Every head of `values` is what the formula makes of `x`.
void check_heads(const test::Activations& values, const test::Activations& x, const test::Vector<float>& weight,
                 const Heads& shape, int64_t heads, double epsilon, double factor = 1.0) {
  CHECK(values.intact());
  for (int64_t t = 0; t < shape.rows; ++t) {
    for (int64_t first = 0; first < heads * shape.dim; first += shape.dim) {
      double squares = 0;
      for (int64_t e = 0; e < shape.dim; ++e) squares += std::pow(static_cast<double>(x.get(t, first + e)), 2);
      const double scale = 1.0 / std::sqrt(squares / shape.dim + epsilon);
      for (int64_t e = 0; e < shape.dim; ++e) {
        const double expected =
            x.get(t, first + e) * scale * static_cast<double>(weight[static_cast<size_t>(e)]) * factor;
        const double tolerance = 3e-6 * (std::abs(expected) + 1e-3) + values.rounding(expected);
        REQUIRE(std::abs(values.get(t, first + e) - expected) <= tolerance);
      }
    }
  }
}

void check_heads(const Heads& shape, Queue& queue) {
  const auto [rows, query_heads, key_heads, dim, gap, size, query_scale] = shape;
  CAPTURE(rows);
  CAPTURE(dim);
  CAPTURE(gap);
  Random random(static_cast<uint64_t>(rows * 1000 + dim));
  const float epsilon = 1e-6f;
  const test::Vector<float> query_weight = test::visible(random.uniforms(dim, 0.5f, 1.5f));
  const test::Vector<float> key_weight = test::visible(random.uniforms(dim, 0.5f, 1.5f));
  test::Activations query(queue, rows, query_heads * dim, query_heads * dim + gap);
  test::Activations key(queue, rows, key_heads * dim, key_heads * dim + 2 * gap), value = key;
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t i = 0; i < key_heads * dim; ++i) value.set(t, i, random.normal(size));
    for (int64_t i = 0; i < query_heads * dim; ++i) query.set(t, i, random.normal(size));
    for (int64_t i = 0; i < key_heads * dim; ++i) key.set(t, i, random.normal(size));
  }
  const test::Activations query_before = query, key_before = key, value_before = value;
  normalise_heads({.query = query.view(),
                   .key = key.view(),
                   .value = value.view(),
                   .query_weight = query_weight.data(),
                   .key_weight = key_weight.data(),
                   .query_scale = query_scale,
                   .head_dim = dim,
                   .epsilon = epsilon},
                  queue);
  REQUIRE(queue.finish().ok());
  const test::Vector<float> ones(static_cast<size_t>(dim), 1.0f);
  check_heads(query, query_before, query_weight, shape, query_heads, static_cast<double>(epsilon),
              static_cast<double>(query_scale));
  check_heads(key, key_before, key_weight, shape, key_heads, static_cast<double>(epsilon));
  check_heads(value, value_before, ones, shape, key_heads, static_cast<double>(epsilon));
}

TEST_CASE("queries alone, or keys and values alone, are normalised as together") {
  constexpr int32_t kDim = 64;
  test::for_each_backend([](Queue& queue) {
    Random random(5);
    const test::Vector<float> weight = test::visible(random.uniforms(kDim, 0.5f, 1.5f));
    test::Activations query(queue, 3, 4 * kDim), key(queue, 3, 2 * kDim), value = key;
    for (int64_t t = 0; t < 3; ++t) {
      for (int64_t i = 0; i < 4 * kDim; ++i) query.set(t, i, random.normal());
      for (int64_t i = 0; i < 2 * kDim; ++i) key.set(t, i, random.normal());
      for (int64_t i = 0; i < 2 * kDim; ++i) value.set(t, i, random.normal());
    }
    test::Activations query_alone = query, key_alone = key, value_alone = value;
    NormaliseHeadsArgs args = {.query_weight = weight.data(), .key_weight = weight.data(), .head_dim = kDim};
    args.query = query.view(), args.key = key.view(), args.value = value.view();
    normalise_heads(args, queue);
    args.query = query_alone.view(), args.key = args.value = {};
    normalise_heads(args, queue);
    args.key = key_alone.view(), args.value = value_alone.view(), args.query = {};
    normalise_heads(args, queue);
    REQUIRE(queue.finish().ok());
    for (int64_t t = 0; t < 3; ++t) {
      for (int64_t i = 0; i < 4 * kDim; ++i) REQUIRE(query.get(t, i) == query_alone.get(t, i));
      for (int64_t i = 0; i < 2 * kDim; ++i) REQUIRE(key.get(t, i) == key_alone.get(t, i));
      for (int64_t i = 0; i < 2 * kDim; ++i) REQUIRE(value.get(t, i) == value_alone.get(t, i));
    }
  });
}

TEST_CASE("every head of queries, keys and values gets its own norm, on every target") {
  test::for_each_backend_and_target([](Queue& queue) {
    for (const int64_t gap : {0, 3, 8})
      for (const int32_t dim : {8, 24, 64, 72, 80, 128, 256, 264, 512}) check_heads({3, 4, 2, dim, gap}, queue);
    check_heads({2, 8, 1, 512, 8, 1.0f, 22.6f}, queue);
    check_heads({1, 16, 8, 128, 0}, queue);
    check_heads({217, 3, 1, 96}, queue);
    check_heads({2, 5, 5, 40, 8, 300.0f}, queue);
    check_heads({2, 5, 1, 128, 8, 1e-3f}, queue);  // epsilon matters
  });
}

}  // namespace
}  // namespace ocellus
