#include "kernels/backends.h"
#include "kernels/base/highway_targets.h"
#include "kernels/base/row_pieces.h"
#include "kernels/vision/pool_attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/vision/pool_attention_cpu.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/base/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace {

void pool_attention_rows(const PoolAttentionArgs& args, int64_t begin, int64_t end) {
  const EightTag d;
  const int32_t parts = args.scale * args.scale, heads = args.rows.heads;
  const auto count = static_cast<float>(parts * heads);
  for (int64_t t = begin; t < end; ++t) {
    float sum = 0;
    for (int32_t part = 0; part < parts; ++part)
      for (int32_t head = 0; head < heads; ++head) sum += args.scores.row(head)[args.patch(t, part)];
    float* const out = args.output.row(t);
    out[0] = sum / (count * static_cast<float>(args.queries));
    for (int64_t e = 0; e < args.rows.head_dim; e += static_cast<int64_t>(hn::Lanes(d))) {
      auto keys = hn::Zero(d);
      for (int32_t part = 0; part < parts; ++part) {
        const int64_t row = args.patch(t, part);
        for (int32_t head = 0; head < heads; ++head)
          keys = hn::Add(keys, load_halves(d, args.rows.keys + args.rows.at(row, head) + e));
      }
      hn::StoreU(hn::Div(keys, hn::Set(d, count)), d, out + 1 + e);
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ocellus {

HWY_EXPORT(pool_attention_rows);

void cpu::pool_attention(const PoolAttentionArgs& args, Queue& queue) {
  const int64_t values = int64_t{args.rows.head_dim} * args.rows.heads * args.scale * args.scale;
  queue.parallel(args.output.rows, rows_per_piece(values, 65536), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(pool_attention_rows)(args, begin, end);
  });
}

}  // namespace ocellus
#endif  // HWY_ONCE
