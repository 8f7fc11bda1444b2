#pragma once

#include <cstdint>

#include "platform/views.h"

namespace ocellus {

/// A row and its score: a greater score is better, of equal ones the lower row.
struct NearRow {
  int64_t row = 0;
  float score = 0;
  friend constexpr bool operator<(const NearRow& a, const NearRow& b) {
    return a.score != b.score ? a.score > b.score : a.row < b.row;
  }
};

/// Widths are multiples of this: rows are padded with zeros.
inline constexpr int64_t kNearestRowsWidth = 64;
/// Maximum magnitude of a query's numbers, so that sums of rows of 16384 codes fit.
inline constexpr int32_t kNearestQueryLimit = 1023;

/// Keeps the rows of coded vectors with the best scores for a query:
///
///   score[i] = steps[i] * sum over w of codes[i][w] * query[w]
///
/// Shapes    codes [N, W], W divisible by 64 and at most 16384, codes from -127 to 127; steps [N]; query [W], within
///           +- kNearestQueryLimit
/// Types     the sum is exact in 32 bits
/// Result    best [capacity] holds the *count best of all calls, in the order of a heap whose front is the worst;
///           std::sort_heap gives the best first. Row i is called first + i in it
struct NearestRowsArgs {
  HostView<const int8_t> codes = {};
  const float* steps = nullptr;
  const int16_t* query = nullptr;
  int64_t first = 0;
  NearRow* best = nullptr;
  int64_t capacity = 0;
  int64_t* count = nullptr;
};
void nearest_rows(const NearestRowsArgs& args);

}  // namespace ocellus
