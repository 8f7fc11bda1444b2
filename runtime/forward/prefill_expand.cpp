// f16 copies of packed and shifted runs, which attention on CUDA reads in their place.
#include "kernels/cache/expand_kv.h"
#include "runtime/forward/prefill.h"

namespace ocellus {

Status ExpandScratch::lay_out(const TextConfig& c, const PrefillLimits& limits, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  constexpr Phase kPhase = kPrefillPhase;
  const int64_t rows_of_heads = c.kv_heads * limits.expanded_tiles * kPackedTileSlots;
  OCELLUS_TRY(runs.lay_out(sink, "packed runs", kLife, kPhase, 1, limits.expanded_tiles));
  OCELLUS_TRY(take_rows(sink, "packed keys as f16", kLife, kPhase, rows_of_heads, c.head_dim, &kv.keys));
  OCELLUS_TRY(take_rows(sink, "packed values as f16", kLife, kPhase, rows_of_heads, c.head_dim, &kv.values));
  if (!limits.compress.policy.calibration.on) return {};
  return take_rows(sink, "calibration", kLife, kPhase, limits.block_rows, 2 * int64_t{c.query_heads}, &calibration);
}

KvRun ExpandScratch::copy_of(const KvRun& run, int64_t index) const {
  const DeviceView<Half>&keys = kv.keys, &values = kv.values;
  const int64_t dim = keys.cols;
  KvRun copy = run;
  copy.data = reinterpret_cast<std::byte*>(keys.data + index * kPackedTileSlots * dim);
  copy.layer_stride = 0;
  copy.head_stride = 2 * dim * (runs.host.cols * kPackedTileSlots);
  copy.value_offset = reinterpret_cast<const std::byte*>(values.data) - reinterpret_cast<const std::byte*>(keys.data);
  copy.capacity = kPackedTileSlots;
  copy.counted_before += run.first;
  copy.first = 0;
  copy.position_shift = 0;
  copy.packed = false;
  return copy;
}

void expand_past(const LayerPass& pass, Queue& q) {
  const PrefillScratch& s = pass.scratch;
  if (pass.plan.expanded_tiles == 0) return;
  expand_kv({.runs = s.past.copies.runs.device.data,
             .run_count = static_cast<int32_t>(pass.plan.expanded_tiles),
             .layer = s.limits.kv.layer(pass.cache_layer()),
             .rope = pass.config().rope,
             .out = s.past.copies.kv.of(pass.config().kv_heads)},
            q);
}

}  // namespace ocellus
