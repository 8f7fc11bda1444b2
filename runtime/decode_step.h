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
  DeviceView<KvRun> runs;         // [B, runs per session], filled without gaps: session b's runs begin at run_begin[b]
  DeviceView<KvRun> new_runs;     // [1, B] the page each new token goes to
  DeviceView<int32_t> new_slots;  // [1, B] and its slot there
  DeviceView<float> hidden;       // [B, D]
  DeviceView<float> angles;       // [B, rotated]
  LayerScratch layer;             // of B rows
  DeviceView<float> logits;       // [B, V]
  DeviceView<std::byte> attend_scratch;

  /// For at most `sessions` sessions of at most `runs_per_session` runs and `slots_per_session` live slots each.
  Status lay_out(const TextConfig& config, int64_t sessions, int64_t runs_per_session, int64_t slots_per_session,
                 int thread_count, RowSink& sink);
};

/// Enqueues the step for rows 0..count-1 of the scratch: reads tokens, positions, runs and new slots, writes each
/// token's keys and values to its new slot and the logits of the following token. The new slot is live in `runs`
/// already, so that the token attends to itself. Stops between layers with kCancelled or kDeadline.
Status enqueue_decode_step(const TextModel& model, int64_t count, const DecodeScratch& scratch, const StopSignal* stop,
                           Queue& queue);

/// logits[b] = unembedding of final_norm(hidden[b]); `hidden` is overwritten with the normalised rows.
void enqueue_logits(const TextModel& model, DeviceView<float> hidden, DeviceView<float> logits,
                    DeviceView<std::byte> matmul_scratch, Queue& queue);

}  // namespace ocellus
