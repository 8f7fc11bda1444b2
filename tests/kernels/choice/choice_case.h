// Listed rows for the ops that choose among them.
#pragma once

#include <cmath>
#include <vector>

#include "tests/support/device.h"
#include "tests/support/random.h"

namespace ocellus::test {

/// Rows of which some are listed, in ascending order; the others hold large values, which are not to be read.
struct ListedRows {
  ListedRows(int64_t count, int64_t columns, Random& random)
      : width(columns), values(2 * count + 1, columns, columns + 3), list(static_cast<size_t>(count)) {
    for (int64_t t = 0; t < 2 * count + 1; ++t)
      for (int64_t i = 0; i < width; ++i) values.at(t, i) = t % 2 == 0 ? 1e6f : random.normal();
    for (size_t i = 0; i < list.size(); ++i) list[i] = static_cast<int32_t>(2 * i + 1);
  }
  double value(int64_t listed, int64_t col) const {
    return static_cast<double>(values.at(list[static_cast<size_t>(listed)], col));
  }
  double product(int64_t a, int64_t b) const {
    double sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += value(a, i) * value(b, i);
    return sum;
  }
  double cosine(int64_t a, int64_t b) const {
    const double lengths = std::sqrt(product(a, a) * product(b, b));
    return lengths > 0 ? product(a, b) / lengths : 0;
  }

  int64_t width;
  Guarded<float> values;
  Vector<int32_t> list;
};

}  // namespace ocellus::test
