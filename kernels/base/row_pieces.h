// Division of rows between threads.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ocellus {

/// Rows of one piece of work, so that handing a piece to another thread (about a microsecond) stays cheap in
/// comparison. `values_per_piece`: number of this op's values that take a few microseconds.
inline int64_t rows_per_piece(int64_t cols, int64_t values_per_piece) {
  return std::max<int64_t>(1, values_per_piece / std::max<int64_t>(cols, 1));
}

}  // namespace ocellus
