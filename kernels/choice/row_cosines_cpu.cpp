#include <algorithm>
#include <cmath>

#include "kernels/backends.h"
#include "kernels/base/highway_targets.h"
#include "kernels/base/row_pieces.h"
#include "kernels/choice/row_cosines.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/choice/row_cosines_cpu.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/base/dot-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace {

float length_of(const float* row, int64_t cols) { return std::sqrt(dot(row, row, cols)); }

float cosine_of(const float* a, const float* b, int64_t cols) {
  const float lengths = length_of(a, cols) * length_of(b, cols);
  return lengths > 0 ? dot(a, b, cols) / lengths : 0.0f;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ocellus {

HWY_EXPORT(length_of);
HWY_EXPORT(cosine_of);

void cpu::row_cosines(const RowCosinesArgs& args, Queue& queue) {
  const int64_t cols = args.rows.cols;
  if (args.others == nullptr) {
    std::fill_n(args.mean, cols, 0.0f);
    for (int64_t t = 0; t < args.text_count; ++t) {
      const float* const row = args.rows.row(args.texts[t]);
      const float length = HWY_DYNAMIC_DISPATCH(length_of)(row, cols);
      for (int64_t i = 0; length > 0 && i < cols; ++i) args.mean[i] += row[i] / length;
    }
  }
  queue.parallel(args.count, rows_per_piece(cols, 16384), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const float* const to = args.others != nullptr ? args.rows.row(args.others[i]) : args.mean;
      args.cosines[i] = HWY_DYNAMIC_DISPATCH(cosine_of)(args.rows.row(args.list[i]), to, cols);
    }
  });
}

}  // namespace ocellus
#endif  // HWY_ONCE
