#include <algorithm>

#include "kernels/backends.h"
#include "kernels/rows/compact_rows.h"

namespace ocellus {

/// A row never moves down, so that no row is overwritten before it has moved.
void cpu::compact_rows(const CompactRowsArgs& args, Queue& queue) {
  if (!queue.ok()) return;
  for (int64_t i = 0; i < args.count; ++i)
    if (args.kept[i] != i) std::copy_n(args.rows.row(args.kept[i]), args.rows.cols, args.rows.row(i));
}

}  // namespace ocellus
