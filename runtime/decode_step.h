// One decode step: one token in, logits out, for one or more sessions at once.
#pragma once

#include "platform/arena.h"
#include "platform/queue.h"
#include "runtime/kv_cache.h"
#include "runtime/text_layer.h"

namespace ocellus {

/// Buffers of a step, one row per session of the batch.
struct DecodeScratch {
  DeviceView<int32_t> tokens;     // [1, B] tokens to read
  DeviceView<int32_t> positions;  // [1, B]
  DeviceView<int32_t> run_begin;  // [1, B + 1]
  DeviceView<KvRun> runs;         // [1, B * runs per session] all sessions' runs, one after the other
  DeviceView<KvRun> new_runs;     // [1, B] the page each new token goes to
  DeviceView<int32_t> new_slots;  // [1, B] and its slot there
  DeviceView<float> hidden;       // [B, D]
  DeviceView<float> angles;       // [B, rotated]
  LayerScratch layer;
  DeviceView<float> logits;  // [B, V]
  DeviceView<std::byte> attend_scratch;

  /// For at most `sessions` sessions of at most `runs` runs and `slots` live slots each.
  Status lay_out(const TextConfig& config, int64_t sessions, int64_t runs_per_session, int64_t slots, int thread_count,
                 RowSink& sink);
};

/// Enqueues the step for rows 0..count-1 of the scratch: reads tokens, positions, runs and new slots, writes each
/// token's keys and values to its new slot and the logits of the following token. Allocates nothing, reads nothing
/// back.
Status enqueue_decode_step(const TextModel& model, int64_t count, const DecodeScratch& scratch, const StopSignal* stop,
                           Queue& queue);

/// logits[b] = unembedding of the normalised rows of `hidden`, which is overwritten.
void enqueue_logits(const TextModel& model, DeviceView<float> hidden, DeviceView<float> logits,
                    DeviceView<std::byte> matmul_scratch, Queue& queue);

}  // namespace ocellus
