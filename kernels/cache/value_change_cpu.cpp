#include "kernels/backends.h"
#include "kernels/base/highway_targets.h"
#include "kernels/base/row_pieces.h"
#include "kernels/cache/value_change.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cache/value_change_cpu.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/base/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace {

float measure_values(const ValueChangeArgs& args, int64_t t) {
  HWY_ALIGN float now[kMaxHeadDim], then[kMaxHeadDim];
  const KvSlot& slot = args.slots[t];
  const int64_t dim = args.rows.head_dim;
  float change = 0;
  for (int64_t head = 0; slot.key != nullptr && head < args.rows.heads; ++head) {
    const std::byte* key = slot.key + args.layer * slot.layer_stride + head * slot.head_stride;
    expand_halves(args.rows.values + args.rows.at(t, head), dim, now);
    expand_halves(reinterpret_cast<const Half*>(key + slot.value_offset), dim, then);
    for (int64_t i = 0; i < dim; ++i) change += (now[i] - then[i]) * (now[i] - then[i]);
  }
  return change;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ocellus {

HWY_EXPORT(measure_values);

void cpu::value_change(const ValueChangeArgs& args, Queue& queue) {
  if (args.rows.head_dim > kMaxHeadDim)
    return queue.fail(OCELLUS_FAIL(Code::kInternal, "value_change got heads of %d values", args.rows.head_dim));
  const int64_t width = int64_t{args.rows.heads} * args.rows.head_dim;
  queue.parallel(args.count, rows_per_piece(width, 16384), [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) args.changes[t] = HWY_DYNAMIC_DISPATCH(measure_values)(args, t);
  });
}

}  // namespace ocellus
#endif  // HWY_ONCE
