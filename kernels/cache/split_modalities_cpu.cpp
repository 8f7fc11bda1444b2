#include "kernels/backends.h"
#include "kernels/cache/split_modalities.h"

namespace ocellus {

void cpu::split_modalities(const SplitModalitiesArgs& args, Queue& queue) {
  queue.parallel(args.sums.rows, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t head = begin; head < end; ++head)
      for (int64_t row = 0; row < args.row_count; ++row)
        modalities::split(args.of_text.row(head)[row], args.of_visual.row(head)[row], args.is_visual[row] != 0,
                          args.sums.row(head)[row]);
  });
}

}  // namespace ocellus
