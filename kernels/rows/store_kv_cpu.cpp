#include <cstring>

#include "kernels/backends.h"
#include "kernels/base/highway_targets.h"
#include "kernels/base/row_pieces.h"
#include "kernels/rows/store_kv.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rows/store_kv_cpu.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/base/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace {

void round_kv_rows(const RoundKvArgs& args, int64_t begin, int64_t end) {
  const int64_t dim = args.out.head_dim;
  for (int64_t t = begin; t < end; ++t) {
    for (int64_t head = 0; head < args.out.heads; ++head) {
      const int64_t to = args.out.at(args.place(t), head);
      round_to_halves(args.keys.row(t) + head * dim, dim, args.out.keys + to);
      round_to_halves(args.values.row(t) + head * dim, dim, args.out.values + to);
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ocellus {

HWY_EXPORT(round_kv_rows);

void cpu::round_kv(const RoundKvArgs& args, Queue& queue) {
  queue.parallel(args.keys.rows, rows_per_piece(args.keys.cols, 16384), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(round_kv_rows)(args, begin, end);
  });
}

void cpu::store_kv(const StoreKvArgs& args, Queue& queue) {
  const KvLayerRows& rows = args.rows;
  const size_t bytes = static_cast<size_t>(rows.head_dim) * sizeof(Half);
  const int64_t width = int64_t{2} * rows.heads * rows.head_dim;
  queue.parallel(args.count, rows_per_piece(width, 65536), [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      const KvSlot& slot = args.slots[t];
      if (slot.key == nullptr) continue;
      for (int64_t head = 0; head < rows.heads; ++head) {
        std::byte* to = slot.key + args.layer * slot.layer_stride + head * slot.head_stride;
        std::memcpy(to, rows.keys + rows.at(t, head), bytes);
        std::memcpy(to + slot.value_offset, rows.values + rows.at(t, head), bytes);
      }
    }
  });
}

}  // namespace ocellus
#endif  // HWY_ONCE
