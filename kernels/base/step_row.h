// StepRow: all inputs of one session's next decode step, in device memory. A step reads it and, at its end, advances
// it, so that the same recorded step can be launched repeatedly without the host.
#pragma once

#include <cstdint>

#include "quant/kv_format.h"

namespace ocellus {

/// Number of recent tokens that penalties look at.
inline constexpr int32_t kRecentTokens = 64;
inline constexpr int32_t kNoTokenSampled = -1;

/// Penalties of tokens among the newest kRecentTokens of the session, prompts included: the logit is divided by
/// `repetition` if positive, else multiplied by it; then n * frequency + presence is subtracted from that of a token
/// that occurs n times; then what DRY says (p-e-w 2024, as in llama.cpp with no sequence breakers): if the newest L >=
/// dry_length tokens also stand right before an earlier occurrence of the token, with L as large as possible,
/// dry_multiplier * dry_base^(L - dry_length).
struct Penalties {
  float repetition = 1.0f;      // 1: off
  float frequency = 0.0f;       // 0: off
  float presence = 0.0f;        // 0: off
  float dry_multiplier = 0.0f;  // 0: off
  float dry_base = 1.75f;
  int32_t dry_length = 2;

  OCELLUS_EVERYWHERE constexpr bool any() const {
    return repetition != 1 || frequency != 0 || presence != 0 || dry_multiplier != 0;
  }
};

/// Additions to the logits of single tokens, each listed once.
inline constexpr int32_t kMostLogitBiases = 64;
struct LogitBiases {
  int32_t count = 0;
  int32_t tokens[kMostLogitBiases] = {};
  float values[kMostLogitBiases] = {};
};

/// Applied in llama.cpp's order: biases, penalties, top-n-sigma, top-k, typical-p, top-p, min-p, then the temperature.
/// Biases and penalties act on greedy choices, too. Probabilities are those at temperature 1 among the tokens kept so
/// far.
struct SamplerParams {
  float temperature = 0.0f;  // 0: greedy
  int32_t top_k = 0;         // keep the k most probable; 0: off
  float top_p = 1.0f;        // keep the smallest set whose probabilities sum to p; 1: off
  float min_p = 0.0f;        // drop tokens less probable than min_p times the maximum; 0: off
  float typical_p = 1.0f;    // keep, of the tokens whose surprisal is nearest to its mean, those that sum to p; 1: off
  float top_n_sigma = 0.0f;  // drop logits more than n standard deviations below the largest; 0: off
  uint64_t seed = 0;
  int32_t top_tokens = -1;  // 0 or more: log-probabilities of the choice and of this many tokens (top_tokens.h)
  Penalties penalties = {};
  LogitBiases biases = {};
};

/// Eviction from a row's cache during an answer (evict_step.h). A step that reads a token evicts a slot if
///
///   floor(slots + 1 - (budget + growth * tokens)) >= 1,   tokens: all tokens of the session, this one included
///
/// The token then takes the evicted slot at the beginning of the next step: a step that is launched before it is known
/// whether the answer ends does no harm.
struct StepEviction {
  int32_t on = 0;
  int32_t slots = 0;        // live slots before the token that the step reads
  int32_t budget = 0;       // H2O, StreamingLLM: number of slots to keep
  float growth = 0;         // Elastic Cache: per token
  int32_t recent = 0;       // number of newest tokens that are never dropped; with sums only
  int32_t settles = 0;      // 1: the previous step evicted a slot; its token waits in the row's new slot
  int32_t moves_sinks = 0;  // 1: tile 0 holds sinks, which are read right before the others

  OCELLUS_EVERYWHERE constexpr bool evicts(int32_t position) const {
    // Exact: the product has at most 53 bits.
    if (on == 0) return false;
    const double most = budget + static_cast<double>(growth) * (position + 1.0);
    return slots + 1 - most >= 1;
  }
};

/// The newest tokens of a session, as a ring: token number i of the session is at i % kRecentTokens.
struct RecentTokens {
  int32_t count = 0;  // all tokens of the session so far, of which the ring has the newest
  int32_t tokens[kRecentTokens] = {};

  OCELLUS_EVERYWHERE constexpr int32_t kept() const { return count < kRecentTokens ? count : kRecentTokens; }
  OCELLUS_EVERYWHERE constexpr void push(int32_t token) { tokens[count++ % kRecentTokens] = token; }
};

struct StepRow {
  int32_t active = 0;    // 0: this row is not read, attended to, stored or sampled
  int32_t token = 0;     // token that the step reads
  int32_t position = 0;  // position of that token
  int32_t new_tile = 0;  // the token's keys and values go to slot new_slot of the row's tile new_tile; the tiles before
  int32_t new_slot = 0;  // it are live as listed, those after it are not
  int32_t step = 0;      // tokens sampled since the host filled the row: index of the result
  int32_t forced = 0;    // 1: the host gives the next token (SampleTokensArgs::forced), nothing is sampled
  int32_t masked = 0;    // 1: only tokens of the row's mask are sampled (SampleTokensArgs::masks)
  StepEviction eviction;
  uint64_t drawn_count = 0;  // tokens sampled in the session: the counter of the random numbers
  SamplerParams sampler;
  RecentTokens recent;
};

/// The part of a StepRow that places its token, for a host that tracks it.
struct StepPlace {
  int32_t position = 0;
  int32_t new_tile = 0;
  int32_t new_slot = 0;
  StepEviction eviction;
};

/// Result of a step for the host; of a forced row, the token that it would have sampled.
struct StepResult {
  int32_t token = kNoTokenSampled;  // kNoTokenSampled: all logits are NaN or masked out
  float log_probability = 0;        // natural logarithm for the forced token, or that of rows with top_tokens; else 0
  uint64_t logits_hash = 0;         // see hash_term
};

/// Number of steps whose results are kept, so that the host can read one while the device computes the next.
inline constexpr int32_t kResultSteps = 4;

}  // namespace ocellus
