// How rows are shared out between threads.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ocellus {

/// Rows of one piece of work, so that handing a piece to another thread (about a microsecond) stays cheap beside it.
/// `values_per_piece`: how many values of this op take a few microseconds.
inline int64_t rows_per_piece(int64_t cols, int64_t values_per_piece) {
  return std::max<int64_t>(1, values_per_piece / std::max<int64_t>(cols, 1));
}

}  // namespace ocellus
