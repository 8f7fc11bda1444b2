// Sampling: from logits to the next token.
#pragma once

#include <cstdint>

#include "platform/arena.h"
#include "platform/views.h"

namespace ocellus {

/// Filters are applied in llama.cpp's order: repetition penalty, top-k, top-p, min-p, then the temperature.
struct SamplerParams {
  float temperature = 0.0f;         // 0: the most likely token
  int32_t top_k = 0;                // keep the k most likely; 0: off
  float top_p = 1.0f;               // keep the smallest set whose probabilities sum to p; 1: off
  float min_p = 0.0f;               // drop what is less likely than min_p times the most likely; 0: off
  float repetition_penalty = 1.0f;  // divides positive and multiplies negative logits of recent tokens; 1: off
  uint64_t seed = 0;
};

/// kBadArgument names the value that is out of range.
Status check_sampler_params(const SamplerParams& params);

/// Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): a pure function of seed and
/// counter, so that every backend draws the same numbers. Uniform in [0, 1) with 24 bits.
float philox_uniform(uint64_t seed, uint64_t counter);

struct Candidate {
  float logit = 0.0f;
  int32_t token = 0;
};

/// Room for every token of the vocabulary once.
struct SamplerWorkspace {
  DeviceView<Candidate> candidates;  // [1, V]
  Status lay_out(int64_t vocabulary, RowSink& sink);
};

/// Chooses the next token. `logits` [V] is changed by the repetition penalty. `counter` is the number of tokens drawn
/// before, so that a run can be repeated. Ties go to the lower token id; NaN never wins. -1 if no logit is a number.
int32_t sample_token(float* logits, int64_t vocabulary, const SamplerParams& params, const int32_t* recent_tokens,
                     int64_t recent_count, uint64_t counter, const SamplerWorkspace& workspace);

}  // namespace ocellus
