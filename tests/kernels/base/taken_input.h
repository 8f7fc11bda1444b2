// The reference of products that round their input: the input as the product takes it, with what cannot be foretold.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/kernels/linear/matmul_case.h"
#include "tests/support/pairs.h"

namespace ocellus::test {

/// How a product takes its weights and its input, or (kHalfInput, kCodes) its input alone.
enum class Taken : uint8_t { kFloats, kParts, kHalves, kPairs, kHalfInput, kCodes };

/// `rows`: of the input of a product by matrices of one format.
inline Taken how_taken(WeightFormat format, int64_t rows, bool on_cuda) {
  if (!on_cuda && takes_pairs(format, rows)) return Taken::kPairs;
  if (is_block_format(format)) return on_cuda && rows > 2 && rows <= 8 ? Taken::kHalfInput : Taken::kCodes;
  if (!on_cuda && takes_parts(format, rows)) return Taken::kParts;
  return on_cuda ? Taken::kHalves : Taken::kFloats;
}

inline double as_taken(double value, Taken taken) {
  if (taken == Taken::kHalves || taken == Taken::kHalfInput) return as_half(static_cast<float>(value));
  return taken == Taken::kPairs ? as_bf16(static_cast<float>(value)) : value;
}

/// The input as a product takes it, in double, and by how much each value may differ because it lies between two.
struct TakenInput {
  std::vector<double> values, doubts;
};

/// `doubt`: relative error of the input itself.
inline TakenInput take_input(const std::vector<float>& x, int64_t cols, Taken how, double doubt) {
  const bool coded = how == Taken::kCodes;
  TakenInput taken{std::vector<double>(x.begin(), x.end()), std::vector<double>(x.size())};
  for (size_t first = 0; first < x.size() && how != Taken::kFloats && how != Taken::kParts;
       first += static_cast<size_t>(coded ? 32 : cols)) {
    const size_t end = first + static_cast<size_t>(coded ? 32 : cols);
    float largest = 0.0f;
    for (size_t i = first; i < end; ++i) largest = std::max(largest, std::abs(x[i]));
    const float scale = largest / 127.0f, inverse = largest == 0.0f ? 0.0f : 127.0f / largest;
    for (size_t i = first; i < end; ++i) {
      const auto round = [&](double value) {
        return coded ? double{scale} * std::nearbyint(value) : as_taken(value, how);
      };
      const double value = coded ? x[i] * inverse : x[i];  // the product in f32, as the ops have it
      taken.values[i] = round(value);
      taken.doubts[i] = std::abs(round(value * (1 + doubt)) - round(value * (1 - doubt)));
    }
  }
  return taken;
}

struct Product {
  double value = 0.0, error = 0.0;
};

/// Row t of the input times row n of the decoded weights.
inline Product multiply_reference(const TakenInput& x, const float* weights, int64_t cols, int64_t t, Taken how,
                                  double relative_error) {
  Product product;
  double magnitude = 0.0, doubt = 0.0;
  for (int64_t i = 0; i < cols; ++i) {
    const double w = how == Taken::kHalfInput ? double{weights[i]} : as_taken(weights[i], how);
    const auto at = static_cast<size_t>(t * cols + i);
    product.value += w * x.values[at];
    magnitude += std::abs(w * x.values[at]);
    doubt += std::abs(w) * x.doubts[at];
  }
  product.error = relative_error * magnitude + doubt + 1e-6;
  return product;
}

/// Clamps a value to the range of f16 outputs.
inline double limited(double value) { return std::clamp(value, -65504.0, 65504.0); }

/// Sums of tensor cores over f16 are cut off, not rounded.
inline double sum_error(Taken how, bool on_cuda) {
  if (how == Taken::kParts) return kPartsError;
  return how == Taken::kCodes || !on_cuda ? 4e-6 : 2e-5;
}

/// Counts outputs that are off by more than their error, and remembers the worst.
struct Comparison {
  void add(double actual, double expected, double error) {
    const double share = std::abs(actual - expected) / error;
    ++all;
    wrong += !(share <= 1.0);
    worst = std::max(worst, share);
  }
  void check() const {
    CHECK_MESSAGE(wrong == 0, wrong << " of " << all << " outputs are wrong, worst error " << worst << " tolerances");
  }
  size_t all = 0, wrong = 0;
  double worst = 0.0;
};

}  // namespace ocellus::test
