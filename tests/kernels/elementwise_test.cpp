#include "kernels/elementwise.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/support/guard.h"
#include "tests/support/random.h"
#include "tests/support/reference.h"
#include "tests/support/test_queue.h"

namespace ocellus {
namespace {

using test::Guarded;
using test::Random;

/// Values around zero, where activations bend, and far out, where exponentials overflow.
void fill(Guarded<float>& values, int64_t rows, int64_t cols, uint64_t seed) {
  constexpr float kSpecial[] = {0.0f, -0.0f, 1e-30f, -1e-6f, 20.0f, -20.0f, 90.0f, -90.0f, 1e4f, -1e4f, 3e18f, -3e18f};
  Random random(seed);
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t i = 0; i < cols; ++i) {
      const int64_t k = random.integer(0, 47);
      values.at(t, i) = k < 12 ? kSpecial[k] : random.normal(3.0f);
    }
  }
}

double expected_activation(Activation activation, double x) {
  switch (activation) {
    case Activation::kGeluTanh: return test::gelu_tanh(x);
    case Activation::kGeluErf: return test::gelu_erf(x);
    case Activation::kQuickGelu: return test::quick_gelu(x);
    case Activation::kSilu: return test::silu(x);
  }
  return 0;
}

TEST_CASE("activations equal their formulas, far from zero too, on every target") {
  test::TestQueue queue(2);
  test::for_each_target([&] {
    for (const Activation activation :
         {Activation::kGeluTanh, Activation::kGeluErf, Activation::kQuickGelu, Activation::kSilu}) {
      for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{1, 1}, {3, 37}, {2, 64}, {300, 100}}) {
        Guarded<float> values(rows, cols, cols + 7);
        fill(values, rows, cols, static_cast<uint64_t>(cols));
        const Guarded<float> x = values;
        activate({.values = values.view(), .activation = activation}, *queue);
        CHECK(values.intact());
        for (int64_t t = 0; t < rows; ++t) {
          for (int64_t i = 0; i < cols; ++i) {
            CAPTURE(static_cast<int>(activation));
            CAPTURE(x.at(t, i));
            const double expected = expected_activation(activation, x.at(t, i));
            REQUIRE(std::abs(values.at(t, i) - expected) <= 1e-6 * std::abs(expected) + 4e-7);
          }
        }
      }
    }
  });
}

TEST_CASE("gated silu equals its formula on every target") {
  test::TestQueue queue(2);
  test::for_each_target([&] {
    for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{1, 1}, {1, 1536}, {3, 37}, {300, 100}}) {
      Guarded<float> gate(rows, cols, cols + 7), up(rows, cols, cols + 2);
      fill(gate, rows, cols, 5);
      Random random(6);
      for (int64_t t = 0; t < rows; ++t)
        for (int64_t i = 0; i < cols; ++i) up.at(t, i) = random.normal();
      const Guarded<float> x = gate;
      gated_silu({.gate = gate.view(), .up = up.view()}, *queue);
      CHECK(gate.intact());
      for (int64_t t = 0; t < rows; ++t) {
        for (int64_t i = 0; i < cols; ++i) {
          const double expected = test::silu(x.at(t, i)) * static_cast<double>(up.at(t, i));
          REQUIRE(std::abs(gate.at(t, i) - expected) <= 1e-6 * std::abs(expected) + 4e-7);
        }
      }
    }
  });
}

TEST_CASE("adding rows is exact") {
  test::TestQueue queue(3);
  test::for_each_target([&] {
    for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{1, 1}, {1, 576}, {3, 37}, {700, 200}}) {
      Guarded<float> values(rows, cols, cols + 7), addend(rows, cols, cols + 2);
      fill(values, rows, cols, 7);
      fill(addend, rows, cols, 8);
      const Guarded<float> x = values;
      add_rows({.values = values.view(), .addend = addend.view()}, *queue);
      CHECK(values.intact());
      for (int64_t t = 0; t < rows; ++t)
        for (int64_t i = 0; i < cols; ++i) REQUIRE(values.at(t, i) == x.at(t, i) + addend.at(t, i));
    }
  });
}

TEST_CASE("a failed queue runs no element-wise op") {
  test::TestQueue queue(2);
  queue->fail(Status(Code::kCancelled));
  float value = 2.0f;
  const float one = 1.0f;
  activate({.values = {&value, 1, 1}}, *queue);
  gated_silu({.gate = {&value, 1, 1}, .up = {&one, 1, 1}}, *queue);
  add_rows({.values = {&value, 1, 1}, .addend = {&one, 1, 1}}, *queue);
  CHECK(value == 2.0f);
}

}  // namespace
}  // namespace ocellus
