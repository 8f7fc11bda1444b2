#include "kernels/backends.h"
#include "kernels/cache/sum_scores.h"

namespace ocellus {

void cpu::sum_scores(const SumScoresArgs& args, Queue&) {
  double sum = 0;
  for (int64_t head = 0; head < args.scores.rows; ++head)
    for (int64_t row = 0; row < args.row_count; ++row) sum += static_cast<double>(args.scores.row(head)[row]);
  *args.total = static_cast<float>(sum);
}

}  // namespace ocellus
