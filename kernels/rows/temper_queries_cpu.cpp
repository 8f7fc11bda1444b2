#include <cmath>

#include "kernels/backends.h"
#include "kernels/base/row_pieces.h"
#include "kernels/rows/temper_queries.h"

namespace ocellus {

void cpu::temper_queries(const TemperQueriesArgs& args, Queue& queue) {
  const QueryTemperature& t = args.temperature;
  const int64_t cols = args.values.cols;
  queue.parallel(args.values.rows, rows_per_piece(cols, 65536), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const int32_t passed = args.positions[row * args.position_stride] / t.length;
      const float factor = t.scale * (1.0f + t.beta * std::log1p(static_cast<float>(passed)));
      float* const x = args.values.row(row);
      for (int64_t i = 0; factor != 1.0f && i < cols; ++i) x[i] *= factor;
    }
  });
}

}  // namespace ocellus
