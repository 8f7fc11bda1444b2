#include <cstring>

#include "kernels/highway_targets.h"
#include "kernels/row_pieces.h"
#include "kernels/store_kv.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/store_kv_cpu.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace {

void round_kv_rows(const RoundKvArgs& args, int64_t begin, int64_t end) {
  const int64_t dim = args.out.head_dim;
  for (int64_t t = begin; t < end; ++t) {
    for (int64_t head = 0; head < args.out.heads; ++head) {
      const int64_t to = (head * args.out.capacity + args.first + t) * dim;
      round_to_halves(args.keys.row(t) + head * dim, dim, args.out.keys + to);
      round_to_halves(args.values.row(t) + head * dim, dim, args.out.values + to);
    }
  }
}

void append_kv_rows(const AppendKvArgs& args) {
  const int64_t dim = args.head_dim;
  for (int64_t b = 0; b < args.keys.rows; ++b) {
    for (int64_t head = 0; (head + 1) * dim <= args.keys.cols; ++head) {
      const int64_t to = args.slots[b] * dim;
      round_to_halves(args.keys.row(b) + head * dim, dim, run_keys(args.runs[b], args.layer, head) + to);
      round_to_halves(args.values.row(b) + head * dim, dim, run_values(args.runs[b], args.layer, head) + to);
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
HWY_EXPORT(append_kv_rows);

void round_kv(const RoundKvArgs& args, Queue& queue) {
  queue.parallel(args.keys.rows, rows_per_piece(args.keys.cols, 16384), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(round_kv_rows)(args, begin, end);
  });
}

void store_kv(const StoreKvArgs& args, Queue& queue) {
  const int64_t dim = args.rows.head_dim;
  const size_t bytes = static_cast<size_t>(args.count * dim) * sizeof(Half);
  queue.parallel(args.rows.heads, args.rows.heads, [&](int64_t begin, int64_t end, int) {
    for (int64_t head = begin; head < end; ++head) {
      const int64_t from = (head * args.rows.capacity + args.first) * dim;
      const int64_t to = args.run_slot * dim;
      std::memcpy(run_keys(args.run, args.layer, head) + to, args.rows.keys + from, bytes);
      std::memcpy(run_values(args.run, args.layer, head) + to, args.rows.values + from, bytes);
    }
  });
}

void append_kv(const AppendKvArgs& args, Queue& queue) {
  if (queue.ok()) HWY_DYNAMIC_DISPATCH(append_kv_rows)(args);
}

}  // namespace ocellus
#endif  // HWY_ONCE
