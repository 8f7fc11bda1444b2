#pragma once

#include <cmath>

#include "kernels/base/step_row.h"
#include "kernels/sampling/adjust_logit.h"
#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

inline constexpr int32_t kMostTopTokens = 20;

/// The most probable tokens of a step: the natural logarithms of their probabilities at temperature 1, among all
/// tokens.
struct TopTokens {
  int32_t count = 0;
  int32_t tokens[kMostTopTokens] = {};
  float log_probabilities[kMostTopTokens] = {};
};

/// Facts of a row's logits for sample_tokens(), which changes some.
struct LogitNotes {
  double log_total = 0;  // ln of the sum of e^(logit - largest)
  float largest = 0;
  float biased[kMostLogitBiases] = {};  // logits of the tokens that have a bias
  float recent[kRecentTokens] = {};     // and of the recent tokens, in the order of their ring
};

/// Lists, for each active row with sampler.top_tokens >= 0, as many of the model's most probable tokens in
/// tops[(step % kResultSteps) * top_stride + b], more probable ones first, ties by the lower token id, whatever the
/// row's filters, penalties and mask say; fewer if fewer logits are numbers. Runs before sample_tokens(), which adds
/// the log-probability of the choice to its result.
///
/// NaN counts as zero probability; an infinite largest logit takes all, so that others have -infinity.
///
/// Shapes      logits [B, V] f32; steps [B]; tops [kResultSteps, top_stride], host memory the device can write;
///             notes [B]
/// Types       the sum of probabilities in f64 (CPU) or 64-bit fixed point (CUDA): results agree to 1e-9 before they
///             are rounded to f32
struct TopTokensArgs {
  DeviceView<float> logits;
  const StepRow* steps = nullptr;
  TopTokens* tops = nullptr;
  int64_t top_stride = 0;
  LogitNotes* notes = nullptr;
};
void list_top_tokens(const TopTokensArgs& args, Queue& queue);

/// Returns the log-probability of a logit at temperature 1; `log_total` as in LogitNotes.
OCELLUS_EVERYWHERE inline float log_share(float logit, float largest, double log_total) {
  constexpr float kInfinity = __builtin_huge_valf();
  if (largest == kInfinity || largest == -kInfinity) return logit == largest ? 0.0f : -kInfinity;
  if (logit != logit) return -kInfinity;
  return static_cast<float>(static_cast<double>(logit) - static_cast<double>(largest) - log_total);
}

/// Returns the log-probability of a token whose logit may have been changed since the notes were taken.
OCELLUS_EVERYWHERE inline float noted_log_probability(const LogitNotes& notes, const StepRow& row, const float* logits,
                                                      int32_t token) {
  float logit = logits[token];
  const LogitBiases& biases = row.sampler.biases;
  for (int32_t i = 0; i < biases.count; ++i)
    if (biases.tokens[i] == token) logit = notes.biased[i];
  for (int32_t i = 0; i < row.recent.kept(); ++i)
    if (row.recent.tokens[i] == token) logit = notes.recent[i];
  return log_share(logit, notes.largest, notes.log_total);
}

/// Returns LogitNotes::log_total of all logits that are numbers; `largest` is the largest of them.
inline double log_total_of(const float* logits, int64_t vocabulary, float largest) {
  double total = 0;
  for (int64_t i = 0; i < vocabulary; ++i)
    if (!std::isnan(logits[i])) total += std::exp(double{logits[i]} - double{largest});
  return std::log(total);
}

/// Notes slot i's logits, i below the larger of kMostLogitBiases and kRecentTokens. Tokens outside the vocabulary are
/// never sampled.
OCELLUS_EVERYWHERE inline void note_logits(const StepRow& row, const float* logits, int64_t vocabulary, int32_t i,
                                           LogitNotes& notes) {
  const auto logit_of = [=](int32_t token) { return token >= 0 && token < vocabulary ? logits[token] : 0.0f; };
  if (i < row.sampler.biases.count) notes.biased[i] = logit_of(row.sampler.biases.tokens[i]);
  if (i < row.recent.kept()) notes.recent[i] = logit_of(row.recent.tokens[i]);
}

}  // namespace ocellus
