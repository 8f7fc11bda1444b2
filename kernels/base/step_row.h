// StepRow: everything one session's next decode step depends on, in the device's memory. A step reads it and, at its
// end, moves it on, so that the same recorded step can be started again and again without the host's help.
#pragma once

#include <cstdint>

#include "quant/kv_format.h"

namespace ocellus {

/// Tokens remembered for the repetition penalty.
inline constexpr int32_t kRecentTokens = 64;
inline constexpr int32_t kNoTokenSampled = -1;

/// Filters are applied in llama.cpp's order: repetition penalty, top-k, top-p, min-p, then the temperature.
struct SamplerParams {
  float temperature = 0.0f;         // 0: the most likely token
  int32_t top_k = 0;                // keep the k most likely; 0: off
  float top_p = 1.0f;               // keep the smallest set whose probabilities sum to p; 1: off
  float min_p = 0.0f;               // drop what is less likely than min_p times the most likely; 0: off
  float repetition_penalty = 1.0f;  // divides positive and multiplies negative logits of recent tokens; 1: off
  uint64_t seed = 0;
};

/// How a row's cache is kept small while it answers (evict_step.h). A step that reads a token evicts a slot if
///
///   floor(slots + 1 - (budget + growth * tokens)) >= 1,   tokens: all that the session has seen, this one among them
///
/// The token then takes the place of what goes, at the beginning of the next step: where a step is started before it is
/// known whether an answer ends, it does no harm.
struct StepEviction {
  int32_t on = 0;
  int32_t slots = 0;        // live before the token that the step reads
  int32_t budget = 0;       // H2O, StreamingLLM: slots that stay
  float growth = 0;         // Elastic Cache: per token
  int32_t recent = 0;       // newest tokens that are not dropped; with sums only
  int32_t settles = 0;      // 1: the step before evicted a slot; its token waits in the row's new slot
  int32_t moves_sinks = 0;  // 1: tile 0 holds what is to stand right before the others, wherever they are

  OCELLUS_EVERYWHERE constexpr bool evicts(int32_t position) const {
    // Exact: the product has 53 bits at most.
    if (on == 0) return false;
    const double most = budget + static_cast<double>(growth) * (position + 1.0);
    return slots + 1 - most >= 1;
  }
};

struct StepRow {
  int32_t active = 0;    // 0: nothing of this row is read, attended to, stored or sampled
  int32_t token = 0;     // to be read by the step
  int32_t position = 0;  // of that token
  int32_t new_tile = 0;  // the token's keys and values go to slot new_slot of the row's tile new_tile; the tiles before
  int32_t new_slot = 0;  // it are live as they stand in the list, those after it are not
  int32_t step = 0;      // tokens sampled since the host filled the row: where the result goes
  int32_t recent_count = 0;
  int32_t forced = 0;  // 1: the host says which token comes next (SampleTokensArgs::forced), nothing is sampled
  StepEviction eviction;
  uint64_t drawn_count = 0;  // tokens sampled in the session: the counter of the random numbers
  SamplerParams sampler;
  int32_t recent[kRecentTokens] = {};  // ring; token number i of the session lies at i % kRecentTokens
};

/// What of a StepRow says where its token goes, for a host that counts along.
struct StepPlace {
  int32_t position = 0;
  int32_t new_tile = 0;
  int32_t new_slot = 0;
  StepEviction eviction;
};

/// What the host hears of a sampled token; of a forced row, of the token that it would have been.
struct StepResult {
  int32_t token = kNoTokenSampled;  // kNoTokenSampled: no logit was a number
  float log_probability = 0;        // of the forced token; 0 in other rows
  uint64_t logits_hash = 0;         // see hash_logit
};

/// Results of this many steps are kept, so that the host may look at one while the device works on the next.
inline constexpr int32_t kResultSteps = 4;

}  // namespace ocellus
