#include <algorithm>

#include "kernels/backends.h"
#include "kernels/base/highway_targets.h"
#include "kernels/base/row_pieces.h"
#include "kernels/rows/convert_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rows/convert_rows_cpu.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/base/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace {

/// Converts any number of values; expand_halves takes multiples of eight.
void expand_row(const Half* from, int64_t count, float* to) {
  const int64_t eights = count / 8 * 8;
  expand_halves(from, eights, to);
  for (int64_t i = eights; i < count; ++i) to[i] = half_to_float(from[i]);
}

void convert(const ConvertRowsArgs& args, int64_t begin, int64_t end) {
  const int64_t cols = args.from.cols;
  const bool from_halves = args.from.type == ActivationType::kF16, to_halves = args.to.type == ActivationType::kF16;
  for (int64_t t = begin; t < end; ++t) {
    const int64_t source = args.source(t), place = args.place(t);
    if (from_halves && to_halves)
      std::copy_n(args.from.half_row(source), cols, args.to.half_row(place));
    else if (from_halves)
      expand_row(args.from.half_row(source), cols, args.to.row(place));
    else if (to_halves)
      round_to_halves(args.from.row(source), cols, args.to.half_row(place));
    else
      std::copy_n(args.from.row(source), cols, args.to.row(place));
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ocellus {

HWY_EXPORT(convert);

void cpu::convert_rows(const ConvertRowsArgs& args, Queue& queue) {
  queue.parallel(args.count(), rows_per_piece(args.from.cols, 65536), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(convert)(args, begin, end);
  });
}

}  // namespace ocellus
#endif  // HWY_ONCE
