#include "kernels/backends.h"
#include "kernels/cache/favour_rows.h"

namespace ocellus {

void cpu::favour_rows(const FavourRowsArgs& args, Queue& queue) {
  queue.parallel(args.scores.rows, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t head = begin; head < end; ++head)
      for (int32_t i = 0; i < args.counts[head]; ++i) {
        const int32_t row = args.rows.row(head)[i];
        if (args.reasons.row(head)[row] > 0) args.scores.row(head)[row] += args.amount;
      }
  });
}

}  // namespace ocellus
