// How attend_rows cuts its work, and where its scratch lies. Plain arithmetic, no vectors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "platform/arena.h"

namespace ocellus {

/// Slots whose keys and values are expanded to f32 at a time.
inline constexpr int64_t kAttendSlots = 64;
/// Most columns of one query block. A column is one query row of one query head; all heads of a group sit side by side.
inline constexpr int64_t kAttendColumns = 64;
/// Columns and head dimensions are padded to this many floats, the widest vector.
inline constexpr int64_t kAttendPadding = 16;

constexpr int64_t attend_padded(int64_t count) {
  return (count + kAttendPadding - 1) / kAttendPadding * kAttendPadding;
}

/// One task per (key/value head, query block): all query heads of the group, `rows` query rows.
struct AttendRowsPlan {
  int64_t group = 1;   // query heads per key/value head
  int64_t rows = 1;    // query rows of a block; the last block may have fewer
  int64_t blocks = 0;  // query blocks per key/value head
};

/// Wide blocks reuse expanded keys most; with few rows, blocks are narrowed until every thread has work. The results
/// do not depend on the width.
inline AttendRowsPlan plan_attend_rows(int64_t query_rows, int64_t query_heads, int64_t kv_heads, int64_t threads) {
  AttendRowsPlan plan;
  plan.group = query_heads / kv_heads;
  for (int64_t columns = kAttendColumns; columns >= kAttendPadding; columns /= 2) {
    plan.rows = std::max<int64_t>(1, columns / plan.group);
    plan.blocks = (query_rows + plan.rows - 1) / plan.rows;
    if (threads == 1 || plan.blocks * kv_heads >= 2 * threads) break;
  }
  return plan;
}

/// One thread's scratch: f32 matrices, rows by columns.
struct AttendRowsScratch {
  float* queries;  // [E, columns]: transposed, scaled
  float* keys;     // [kAttendSlots, E]
  float* values;   // [kAttendSlots, E] and one vector more, read but not used when E is no multiple of the vector
  float* weights;  // [kAttendSlots, columns]: scores, then their exponentials
  float* mixed;    // [columns, padded E]: weighted sums of values
  float* maxima;   // [columns]: largest score so far
  float* sums;     // [columns]: sum of weights so far
  float* rescale;  // [columns]: what this block's new maximum multiplies earlier sums by

  static constexpr int64_t bytes(int64_t head_dim) {
    const int64_t dim = attend_padded(head_dim);
    const int64_t matrices = dim * kAttendColumns * 2 + dim * kAttendSlots * 2 + kAttendSlots * kAttendColumns;
    const int64_t floats = matrices + kAttendPadding + 3 * kAttendColumns;
    return aligned_bytes(floats * static_cast<int64_t>(sizeof(float)));
  }

  AttendRowsScratch(std::byte* memory, int64_t head_dim) {
    const int64_t dim = attend_padded(head_dim);
    queries = reinterpret_cast<float*>(memory);
    keys = queries + dim * kAttendColumns;
    weights = keys + dim * kAttendSlots;
    mixed = weights + kAttendSlots * kAttendColumns;
    maxima = mixed + dim * kAttendColumns;
    sums = maxima + kAttendColumns;
    rescale = sums + kAttendColumns;
    values = rescale + kAttendColumns;
  }
};

}  // namespace ocellus
