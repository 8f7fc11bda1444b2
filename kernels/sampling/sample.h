#pragma once

#include "kernels/base/kv_run.h"
#include "kernels/base/step_row.h"
#include "kernels/sampling/sample_row.h"
#include "kernels/sampling/top_tokens.h"
#include "platform/arena.h"
#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// Chooses each active row's next token from its logits by the row's sampler parameters, writes it to
/// results[(step % kResultSteps) * result_stride + b] together with the hash of the model's logits, and advances the
/// row:
/// token, step, drawn_count, recent tokens; with `tiles` also position and the new slot (new_slot + 1, or slot 0 of
/// the next tile if that one is full: tiles[b * tiles_per_row + new_tile].capacity). Ties go to the lower token id; NaN
/// never wins; a row of NaNs gets kNoTokenSampled and token 0.
///
/// A masked row samples as if the logits of all tokens outside its mask were NaN; the hash stays that of the model's
/// logits. Token t is in the mask of row b if bit t % 32 of masks[b * mask_stride + t / 32] is set. Bits from V on are
/// ignored, and so is the mask of a forced row.
///
/// The result of a row with top_tokens has the log-probability of the chosen token, as list_top_tokens() defines it.
///
/// A forced row reads forced[(step % kResultSteps) * forced_stride + b] next, whatever its sampler says. Its result is
/// the most probable token and the natural logarithm of the forced one's probability by the softmax of the model's
/// logits. NaN counts as zero probability there; an infinite largest logit takes all, so that others have -infinity.
///
/// Shapes      logits [B, V] f32, may be changed; steps [B]; results [kResultSteps, result_stride], host memory the
///             device can write; forced [kResultSteps, forced_stride], host memory the device can read, null if no
///             row is forced: ids below V; masks [B, >= ceil(V / 32)] of stride mask_stride, host memory the device
///             can read, null if no row is masked; notes [B], list_top_tokens()'s for these logits, null if no row has
///             top_tokens
/// Types       the sums of probabilities in f64 (CPU) or 64-bit fixed point (CUDA): if a draw falls within 1e-9 of the
///             border between two tokens, the backends may choose differently; log-probabilities, too, agree to 1e-9
///             before they are rounded to f32. Top-n-sigma counts how far logits are below the largest in 2^-20, 4096
///             at most; typical-p rounds the mean logit, which it measures distances from, to 2^-20
/// Scratch     sample_scratch_bytes(B, V, traits), which also serves fewer rows; 16-byte aligned
/// Work        CUDA: two kernels. Many blocks per row penalise, mask, hash and find the most probable token; then one
///             block per row samples, if the row needs it. Independent of the order of additions: hashes and weights
///             are integers
/// Errors      kInternal in the queue if scratch is too small
struct SampleTokensArgs {
  DeviceView<float> logits;
  StepRow* steps = nullptr;
  const KvRun* tiles = nullptr;
  int64_t tiles_per_row = 0;
  StepResult* results = nullptr;
  int64_t result_stride = 0;
  const int32_t* forced = nullptr;
  int64_t forced_stride = 0;
  const uint32_t* masks = nullptr;
  int64_t mask_stride = 0;
  const LogitNotes* notes = nullptr;
  DeviceView<std::byte> scratch;
};

int64_t sample_scratch_bytes(int64_t rows, int64_t vocabulary, const DeviceTraits& device);

void sample_tokens(const SampleTokensArgs& args, Queue& queue);

}  // namespace ocellus
