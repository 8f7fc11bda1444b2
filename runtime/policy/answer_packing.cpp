#include "runtime/policy/answer_packing.h"

#include <numeric>

#include "kernels/cache/expand_kv.h"

namespace ocellus {
namespace {

/// Packs all layers of the pages that `scratch` lists, one after the other.
void enqueue_packing(const TextModel& model, const CachePolicy& policy, const AnswerPacking& scratch, const KvShape& kv,
                     Queue& queue) {
  const int64_t slots = scratch.rows.host.cols;
  const KvLayerRows rows =
      KvLayerRows::head_major(scratch.keys.data, scratch.values.data, kv.kv_heads, kv.head_dim, slots);
  for (int32_t layer = 0; layer < kv.layer_count; ++layer) {
    expand_kv({.runs = scratch.pages.device.data,
               .run_count = static_cast<int32_t>(scratch.pages.host.cols),
               .layer = kv.layer(layer),
               .rope = model.config.rope,
               .out = rows,
               .rows_per_run = kPageSlots,
               .last_run_slots = kPageSlots},
              queue);
    pack_kv({.rows = rows,
             .indices = scratch.rows.device.data,
             .jobs = scratch.job.device.data,
             .job_count = 1,
             .layer = kv.layer(layer),
             .key_range = policy.key_range,
             .value_range = policy.value_range},
            queue);
  }
}

}  // namespace

Status AnswerPacking::lay_out(const KvShape& kv, Phase phase, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  const int64_t slots = kv.block_slots;
  OCELLUS_TRY(pages.lay_out(sink, "pages to pack", kLife, phase, 1, slots / kPageSlots));
  OCELLUS_TRY(rows.lay_out(sink, "rows to pack", kLife, phase, 1, slots));
  OCELLUS_TRY(job.lay_out(sink, "block to pack", kLife, phase, 1, 1));
  OCELLUS_TRY(take_rows(sink, "keys to pack", kLife, phase, kv.kv_heads * slots, kv.head_dim, &keys));
  return take_rows(sink, "values to pack", kLife, phase, kv.kv_heads * slots, kv.head_dim, &values);
}

Status pack_oldest_text(const TextModel& model, const CachePolicy& policy, const AnswerPacking& scratch,
                        SessionCache& cache, Queue& queue) {
  const KvShape& kv = cache.shape();
  std::iota(scratch.rows.host.data, scratch.rows.host.data + scratch.rows.host.cols, 0);
  queue.upload(scratch.rows, scratch.rows.host.cols);
  while (cache.has_text_to_pack(policy.residual)) {
    PackJob& job = *scratch.job.host.data;
    job = PackJob();
    OCELLUS_TRY(cache.reserve_text_block(&job.out));
    int32_t slot = 0;
    for (int64_t page = 0; page < scratch.pages.host.cols; ++page)
      scratch.pages.host.data[page] = cache.text_place(page * kPageSlots, &slot);
    queue.upload(scratch.pages, scratch.pages.host.cols);
    queue.upload(scratch.job, 1);
    enqueue_packing(model, policy, scratch, kv, queue);
    OCELLUS_TRY(queue.finish());  // the lists are read until then
    cache.commit_text_block();
  }
  return {};
}

}  // namespace ocellus
