#pragma once

#include <cstdint>

#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// Moves the rows that are kept to the front: rows[i] = rows[kept[i]] for i = 0 .. count - 1, as if all were read
/// first.
///
/// Shapes    rows [T, D] f32, rows possibly strided; kept [count], ascending, each below T
/// Aliasing  in place; rows from `count` on are left as they are
struct CompactRowsArgs {
  DeviceView<float> rows;
  const int32_t* kept = nullptr;
  int64_t count = 0;
};
void compact_rows(const CompactRowsArgs& args, Queue& queue);

}  // namespace ocellus
