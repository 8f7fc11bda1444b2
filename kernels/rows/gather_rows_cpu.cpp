#include <cinttypes>

#include "kernels/backends.h"
#include "kernels/base/row_pieces.h"
#include "kernels/rows/gather_rows.h"

namespace ocellus {

void cpu::gather_rows(const GatherRowsArgs& args, Queue& queue) {
  const auto id_of = [&args](int64_t t) {
    const int32_t id = args.ids[t * args.id_stride];
    return id == kSkippedRow ? args.skipped_as : id;
  };
  for (int64_t t = 0; t < args.count; ++t) {
    const int32_t id = id_of(t);
    if (id == kSkippedRow || (id >= 0 && id < args.table.rows)) continue;
    queue.fail(OCELLUS_FAIL(Code::kInternal, "row %" PRId64 " asks for id %d of a table of %" PRId64 " rows", t, id,
                            args.table.rows));
    return;
  }
  queue.parallel(args.count, rows_per_piece(args.table.cols, 16384), [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      const int32_t id = id_of(t);
      if (id == kSkippedRow) continue;
      float* const row = args.output.row(t);
      decode_row(args.table.format, args.table.row(id), args.table.cols, row);
      for (int64_t i = 0; args.scale != 1.0f && i < args.table.cols; ++i) row[i] *= args.scale;
    }
  });
}

}  // namespace ocellus
