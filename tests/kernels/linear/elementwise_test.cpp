#include "kernels/linear/elementwise.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/support/device.h"
#include "tests/support/guard.h"
#include "tests/support/random.h"
#include "tests/support/reference.h"

namespace ocellus {
namespace {

using test::Activations;
using test::Guarded;
using test::Random;

struct Shape {
  int64_t rows;
  int64_t cols;
  int64_t gap;  // between rows; a multiple of 8 allows wide accesses
};
constexpr Shape kShapes[] = {{1, 1, 7},  {3, 37, 7},   {2, 64, 7},   {300, 100, 7}, {1, 1536, 0},
                             {3, 64, 8}, {7, 1032, 8}, {2, 4112, 8}, {5, 104, 0},   {40, 576, 0}};

/// Values around zero, where activations bend, and far out, where exponentials overflow.
float lively(Random& random, float largest) {
  constexpr float kSpecial[] = {0.0f, -0.0f, 1e-30f, -1e-6f, 20.0f, -20.0f, 90.0f, -90.0f, 1e4f, -1e4f, 3e18f, -3e18f};
  const int64_t k = random.integer(0, 47);
  return std::clamp(k < 12 ? kSpecial[k] : random.normal(3.0f), -largest, largest);
}

void fill(Activations& values, const Shape& shape, uint64_t seed) {
  Random random(seed);
  for (int64_t t = 0; t < shape.rows; ++t)
    for (int64_t i = 0; i < shape.cols; ++i) values.set(t, i, lively(random, values.is_half() ? 65504.0f : 3e18f));
}

/// f16 results come from quicker exponentials and divisions: their error grows with the exponent, which is below 20
/// where the result is not zero.
bool close(const Activations& values, double got, double exact) {
  const double expected = values.limited(exact);
  const double relative = values.is_half() ? 5e-6 : 1e-6, absolute = values.is_half() ? 1e-8 : 4e-7;
  return std::abs(got - expected) <= relative * std::abs(expected) + absolute + values.rounding(expected);
}

double expected_activation(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone: return x;
    case Activation::kGeluTanh: return test::gelu_tanh(x);
    case Activation::kGeluErf: return test::gelu_erf(x);
    case Activation::kQuickGelu: return test::quick_gelu(x);
    case Activation::kSilu: return test::silu(x);
    case Activation::kSquaredRelu: return test::squared_relu(x);
  }
  return 0;
}

TEST_CASE("activations equal their formulas, far from zero too, on every target") {
  test::for_each_backend_and_target([&](Queue& queue) {
    for (const Activation activation : {Activation::kNone, Activation::kGeluTanh, Activation::kGeluErf,
                                        Activation::kQuickGelu, Activation::kSilu, Activation::kSquaredRelu}) {
      for (const Shape& shape : kShapes) {
        Activations values(queue, shape.rows, shape.cols, shape.cols + shape.gap);
        fill(values, shape, static_cast<uint64_t>(shape.cols));
        const Activations x = values;
        activate({.values = values.view(), .activation = activation}, queue);
        REQUIRE(queue.finish().ok());
        CHECK(values.intact());
        for (int64_t t = 0; t < shape.rows; ++t) {
          for (int64_t i = 0; i < shape.cols; ++i) {
            CAPTURE(static_cast<int>(activation));
            CAPTURE(x.get(t, i));
            CAPTURE(values.get(t, i));
            REQUIRE(close(values, values.get(t, i), expected_activation(activation, x.get(t, i))));
          }
        }
      }
    }
  });
}

TEST_CASE("activations keep their digits at every f16") {
  test::for_each_backend([&](Queue& queue) {
    constexpr int64_t kCount = 0x7C00;  // finite magnitudes
    for (const Activation activation : {Activation::kGeluTanh, Activation::kGeluErf, Activation::kQuickGelu,
                                        Activation::kSilu, Activation::kSquaredRelu}) {
      Activations values(queue, 2, kCount);
      for (int64_t i = 0; i < kCount; ++i) {
        values.set(0, i, half_to_float(Half{static_cast<uint16_t>(i)}));
        values.set(1, i, half_to_float(Half{static_cast<uint16_t>(i | 0x8000)}));
      }
      const Activations x = values;
      activate({.values = values.view(), .activation = activation}, queue);
      REQUIRE(queue.finish().ok());
      for (int64_t t = 0; t < 2; ++t) {
        for (int64_t i = 0; i < kCount; ++i) {
          CAPTURE(static_cast<int>(activation));
          CAPTURE(x.get(t, i));
          REQUIRE(close(values, values.get(t, i), expected_activation(activation, x.get(t, i))));
        }
      }
    }
  });
}

TEST_CASE("gated activations equal their formula on every target") {
  test::for_each_backend_and_target([&](Queue& queue) {
    for (const Shape& shape : kShapes) {
      for (const int64_t more : {0, 2, 16}) {  // the two need not have the same distance between rows
        Activations gate(queue, shape.rows, shape.cols, shape.cols + shape.gap);
        Activations up(queue, shape.rows, shape.cols, shape.cols + shape.gap + more);
        fill(gate, shape, 5);
        Random random(6);
        for (int64_t t = 0; t < shape.rows; ++t)
          for (int64_t i = 0; i < shape.cols; ++i) up.set(t, i, random.normal());
        const Activations x = gate;
        const Activation activation =
            (shape.rows + shape.cols + more) % 4 < 2 ? Activation::kSilu : Activation::kGeluTanh;
        gated_activation({.gate = gate.view(), .up = up.view(), .activation = activation}, queue);
        REQUIRE(queue.finish().ok());
        CHECK(gate.intact());
        for (int64_t t = 0; t < shape.rows; ++t) {
          for (int64_t i = 0; i < shape.cols; ++i) {
            CAPTURE(x.get(t, i));
            CAPTURE(up.get(t, i));
            const double expected = expected_activation(activation, x.get(t, i)) * static_cast<double>(up.get(t, i));
            REQUIRE(close(gate, gate.get(t, i), expected));
          }
        }
      }
    }
  });
}

TEST_CASE("adding rows is exact, and the addend repeats") {
  test::for_each_backend_and_target([&](Queue& queue) {
    for (const Shape& shape : {Shape{1, 1, 7}, {1, 576, 0}, {3, 37, 7}, {700, 200, 7}, {64, 768, 8}, {5, 2052, 4}}) {
      const auto [rows, cols, gap] = shape;
      for (const int64_t addend_rows : {rows, int64_t{1}, (rows + 2) / 3}) {
        Guarded<float> values(rows, cols, cols + gap), addend(addend_rows, cols, cols + gap / 7 * 2);
        Random random(7);
        for (int64_t t = 0; t < rows; ++t)
          for (int64_t i = 0; i < cols; ++i) values.at(t, i) = lively(random, 3e18f);
        for (int64_t t = 0; t < addend_rows; ++t)
          for (int64_t i = 0; i < cols; ++i) addend.at(t, i) = lively(random, 3e18f);
        const Guarded<float> x = values;
        add_rows({.values = values.view(), .addend = addend.view()}, queue);
        REQUIRE(queue.finish().ok());
        CHECK(values.intact());
        for (int64_t t = 0; t < rows; ++t)
          for (int64_t i = 0; i < cols; ++i) REQUIRE(values.at(t, i) == x.at(t, i) + addend.at(t % addend_rows, i));
      }
    }
  });
}

TEST_CASE("add_scaled_rows adds rows scaled by channel") {
  test::for_each_backend([](Queue& queue) {
    Random random(31);
    for (const auto& [rows, cols, gap] :
         {std::tuple<int64_t, int64_t, int64_t>{1, 1, 0}, {3, 37, 5}, {7, 64, 0}, {5, 3200, 8}}) {
      CAPTURE(cols);
      CAPTURE(gap);
      Guarded<float> values(rows, cols, cols + gap);
      Activations addend(queue, rows, cols, cols + 2 * gap);
      const test::Vector<float> scale = test::visible(random.normals(cols));
      for (int64_t t = 0; t < rows; ++t)
        for (int64_t i = 0; i < cols; ++i) {
          values.at(t, i) = random.normal();
          addend.set(t, i, random.normal());
        }
      const Guarded<float> x = values;
      add_scaled_rows({.values = values.view(), .addend = addend.view(), .scale = scale.data()}, queue);
      REQUIRE(queue.finish().ok());
      CHECK(values.intact());
      CHECK(addend.intact());
      for (int64_t t = 0; t < rows; ++t)
        for (int64_t i = 0; i < cols; ++i) {
          const double product = double{scale[static_cast<size_t>(i)]} * addend.get(t, i);
          const double expected = x.at(t, i) + product;
          REQUIRE(std::abs(values.at(t, i) - expected) <= 2e-7 * (std::abs(product) + std::abs(expected)));
        }
    }
  });
}

TEST_CASE("clamped values lie within their bounds, of either type") {
  test::for_each_backend_and_target([](Queue& queue) {
    for (const Shape& shape : kShapes) {
      Activations values(queue, shape.rows, shape.cols, shape.cols + shape.gap);
      Guarded<float> floats(shape.rows, shape.cols, shape.cols + shape.gap);
      fill(values, shape, 3);
      for (int64_t t = 0; t < shape.rows; ++t)
        for (int64_t i = 0; i < shape.cols; ++i) floats.at(t, i) = values.get(t, i);
      const Activations x = values;
      clamp_rows({.values = values.view(), .low = -1.5f, .high = 2.0f}, queue);
      clamp_rows({.values = floats.view(), .low = -1.5f, .high = 2.0f}, queue);
      REQUIRE(queue.finish().ok());
      CHECK(values.intact());
      CHECK(floats.intact());
      for (int64_t t = 0; t < shape.rows; ++t)
        for (int64_t i = 0; i < shape.cols; ++i) {
          REQUIRE(values.get(t, i) == std::clamp(x.get(t, i), -1.5f, 2.0f));
          REQUIRE(floats.at(t, i) == values.get(t, i));
        }
    }
  });
}

TEST_CASE("values are standardised and capped by their formulas") {
  test::for_each_backend_and_target([](Queue& queue) {
    for (const Shape& shape : kShapes) {
      const auto [rows, cols, gap] = shape;
      Random random(static_cast<uint64_t>(cols));
      const test::Vector<float> bias = test::visible(random.normals(cols)), scale = test::visible(random.normals(cols));
      Guarded<float> standardised(rows, cols, cols + gap), capped(rows, cols, cols + gap);
      for (int64_t t = 0; t < rows; ++t)
        for (int64_t i = 0; i < cols; ++i) {
          standardised.at(t, i) = random.normal();
          capped.at(t, i) = lively(random, 1e4f);
        }
      const Guarded<float> x = standardised, y = capped;
      standardise_rows({.values = standardised.view(), .factor = 3.5f, .bias = bias.data(), .scale = scale.data()},
                       queue);
      cap_rows({.values = capped.view(), .cap = 30.0f}, queue);
      REQUIRE(queue.finish().ok());
      CHECK(standardised.intact());
      CHECK(capped.intact());
      for (int64_t t = 0; t < rows; ++t)
        for (int64_t i = 0; i < cols; ++i) {
          const auto c = static_cast<size_t>(i);
          const double product = 3.5 * x.at(t, i), expected = (product - double{bias[c]}) * double{scale[c]};
          REQUIRE(std::abs(standardised.at(t, i) - expected) <=
                  4e-7 * (std::abs(product) + std::abs(double{bias[c]})) * std::abs(double{scale[c]}) + 1e-12);
          REQUIRE(std::abs(capped.at(t, i) - 30.0 * std::tanh(y.at(t, i) / 30.0)) <= 1e-5);
        }
    }
  });
}

TEST_CASE("a failed queue runs no element-wise op") {
  test::for_each_backend([&](Queue& queue) {
    Activations value(queue, 1, 1), one(queue, 1, 1);
    Guarded<float> sum(1, 1);
    value.set(0, 0, 2.0f);
    one.set(0, 0, 1.0f);
    sum.at(0, 0) = 2.0f;
    queue.fail(Status(Code::kCancelled));
    activate({.values = value.view()}, queue);
    gated_activation({.gate = value.view(), .up = one.view()}, queue);
    add_rows({.values = sum.view(), .addend = sum.view()}, queue);
    add_scaled_rows({.values = sum.view(), .addend = one.view(), .scale = &sum.at(0, 0)}, queue);
    queue.clear();
    REQUIRE(queue.finish().ok());
    CHECK(value.get(0, 0) == 2.0f);
    CHECK(sum.at(0, 0) == 2.0f);
  });
}

TEST_CASE("activations of the other backend's type are refused on CUDA") {
  Queue* const queue = test::cuda_queue();
  if (queue == nullptr) return;
  Guarded<float> values(1, 8);
  activate({.values = values.view()}, *queue);
  CHECK(queue->status().code() == Code::kInternal);
  queue->clear();
  CHECK(values.untouched_count() == 8);
}

}  // namespace
}  // namespace ocellus
