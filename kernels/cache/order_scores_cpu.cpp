#include <algorithm>
#include <numeric>

#include "kernels/backends.h"
#include "kernels/cache/order_scores.h"
#include "kernels/cache/select_slots-inl.h"

namespace ocellus {

void cpu::order_scores(const OrderScoresArgs& args, Queue& queue) {
  const int64_t rows = args.end - args.first;
  if (rows <= 0) return;
  queue.parallel(args.scores.rows, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t head = begin; head < end; ++head) {
      float* scores = args.scores.row(head) + args.first;
      int32_t* order = args.order.row(head);
      std::iota(order, order + rows, 0);
      std::sort(order, order + rows, [&](int32_t a, int32_t b) {
        const uint32_t rank_a = select::rank_of(scores[a]), rank_b = select::rank_of(scores[b]);
        return rank_a != rank_b ? rank_a < rank_b : a < b;
      });
      std::copy(order, order + rows, scores);
    }
  });
}

}  // namespace ocellus
