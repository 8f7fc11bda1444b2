// KIVI during an answer: the oldest text in pages is packed, a block at a time, as newer text exceeds the window.
#pragma once

#include "kernels/cache/pack_kv.h"
#include "platform/arena.h"
#include "platform/queue.h"
#include "runtime/cache/kv_cache.h"
#include "runtime/models/text_model.h"
#include "runtime/policy/cache_policy.h"
#include "runtime/policy/compress.h"

namespace ocellus {

/// Scratch of a step.
struct AnswerPacking {
  StagedRows<KvRun> pages;        // [1, pages that fill a block]
  StagedRows<int32_t> rows;       // [1, slots of a block] 0, 1, 2, ...
  StagedRows<PackJob> job;        // [1, 1]
  DeviceView<Half> keys, values;  // one layer's [G * slots of a block, E]

  Status lay_out(const KvShape& kv, Phase phase, RowSink& sink);
};

/// Packs the session's oldest pages of text while all but its newest `policy.residual` tokens fill a block. Waits for
/// the device: no other work may be queued. kFull: never, if the cache was planned for this.
Status pack_oldest_text(const TextModel& model, const CachePolicy& policy, const AnswerPacking& scratch,
                        SessionCache& cache, Queue& queue);

}  // namespace ocellus
