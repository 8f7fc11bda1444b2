// The sampler by definition, in f64 with every candidate sorted, and random input for it.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "tests/support/random.h"
#include "tests/support/sample_batch.h"
#include "tests/support/sample_filter.h"

namespace ocellus::test {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct SampledChoice {
  int32_t token = kNoTokenSampled;
  bool sure = true;  // nothing fell so near a border that rounding decides
};

/// Returns how many of the newest tokens of `said` (oldest first) also end just before position `at`.
inline int64_t repeat_before(const std::vector<int32_t>& said, size_t at) {
  int64_t length = 0;
  for (size_t back = 1; back <= at && said[at - back] == said[said.size() - back]; ++back) ++length;
  return length;
}

/// The recent tokens, oldest first.
inline std::vector<int32_t> said_before(const StepRow& row) {
  std::vector<int32_t> said;
  for (int32_t i = row.recent.count - row.recent.kept(); i < row.recent.count; ++i)
    said.push_back(row.recent.tokens[i % kRecentTokens]);
  return said;
}

/// Logits with biases and penalties.
inline std::vector<float> adjusted(std::vector<float> logits, const StepRow& row) {
  const auto size = static_cast<int32_t>(logits.size());
  for (int32_t i = 0; i < row.sampler.biases.count; ++i)
    if (const int32_t token = row.sampler.biases.tokens[i]; token < size)
      logits[static_cast<size_t>(token)] += row.sampler.biases.values[i];
  const Penalties& p = row.sampler.penalties;
  const std::vector<int32_t> said = said_before(row);
  for (const int32_t token : std::set<int32_t>(said.begin(), said.end())) {
    if (token < 0 || token >= size) continue;
    float& logit = logits[static_cast<size_t>(token)];
    if (p.repetition != 1) logit = logit > 0 ? logit / p.repetition : logit * p.repetition;
    const auto count = static_cast<double>(std::count(said.begin(), said.end(), token));
    int64_t longest = 0;
    for (size_t at = 0; at < said.size(); ++at)
      if (said[at] == token) longest = std::max(longest, repeat_before(said, at));
    double dry = 0;
    if (p.dry_multiplier != 0 && longest >= p.dry_length)
      dry = std::min(
          double{p.dry_multiplier} * std::pow(double{p.dry_base}, static_cast<double>(longest - p.dry_length)), 1e30);
    if (p.frequency != 0 || p.presence != 0 || dry != 0)
      logit = static_cast<float>(double{logit} - (double{p.frequency} * count + double{p.presence}) -
                                 double{static_cast<float>(dry)});
  }
  return logits;
}

/// The whole op by definition, with every candidate sorted.
inline SampledChoice brute_force(const std::vector<float>& given, const StepRow& row) {
  const SamplerParams& params = row.sampler;
  CandidateFilter filter(adjusted(given, row));
  if (!filter.has_any()) return {};
  const double largest = filter.largest();
  if (params.temperature == 0 || std::isinf(largest)) return {filter.first(), true};
  if (params.top_n_sigma > 0) filter.cut_sigmas(params.top_n_sigma);
  if (params.top_k > 0) filter.keep(params.top_k);
  if (params.typical_p < 1) filter.cut_typical(params.typical_p);
  if (params.top_p < 1) filter.cut_share(params.top_p);
  if (params.min_p > 0) filter.cut_below(static_cast<float>(filter.largest() + std::log(double{params.min_p})));
  const int32_t token = filter.cut_share(double{philox_uniform(params.seed, row.drawn_count)}, params.temperature);
  return {token, filter.is_sure()};
}

inline std::vector<float> random_logits(Random& random, int64_t vocabulary) {
  const int64_t kind = random.integer(0, 7);
  std::vector<float> logits = random.normals(vocabulary, std::array{0.02f, 1.0f, 3.0f, 30.0f}[random.bits() % 4]);
  for (float& logit : logits) {
    if (kind == 0) logit = std::round(logit);  // ties, zeros of both signs
    if (kind == 1) logit = random.integer(0, 2) == 0 ? kNan : logit;
    if (kind == 2) logit = random.integer(0, 2) == 0 ? -kInfinity : logit;
    if (kind == 3) logit *= 1e37f;
    if (kind == 4) logit = random.integer(0, 99) == 0 ? logit + 50 : logit;  // most are hopeless
    if (kind == 5) logit = 7.25f;
  }
  return logits;
}

inline StepRow random_row(Random& random, int64_t vocabulary) {
  const auto chance = [&](int64_t of) { return random.integer(1, of) == 1; };
  StepRow row;
  row.active = 1;
  row.step = static_cast<int32_t>(random.integer(0, 9));
  row.drawn_count = random.bits() >> random.integer(0, 63);
  SamplerParams& p = row.sampler;
  p.temperature = chance(6) ? 0 : chance(8) ? 1e-5f : chance(8) ? 50.0f : random.uniform(0.1f, 2.5f);
  p.top_k = chance(2) ? 0 : static_cast<int32_t>(random.integer(1, chance(2) ? 40 : vocabulary + 3));
  p.top_p = chance(2) ? 1 : chance(4) ? 1e-7f : random.uniform(0.05f, 1.0f);
  p.min_p = chance(2) ? 0 : chance(4) ? 1 : random.uniform(0.0f, 0.3f);
  p.typical_p = chance(2) ? 1 : random.uniform(0.02f, 1.0f);
  p.top_n_sigma = chance(2) ? 0 : random.uniform(0.05f, 4.0f);
  p.seed = random.bits();
  Penalties& penalties = p.penalties;
  penalties.repetition = chance(2) ? 1 : random.uniform(0.6f, 1.8f);
  penalties.frequency = chance(2) ? 0 : random.uniform(-2.0f, 2.0f);
  penalties.presence = chance(2) ? 0 : random.uniform(-2.0f, 2.0f);
  penalties.dry_multiplier = chance(2) ? 0 : random.uniform(0.1f, 2.0f);
  penalties.dry_base = random.uniform(1.0f, 3.0f);
  penalties.dry_length = static_cast<int32_t>(random.integer(0, 4));
  p.biases.count =
      static_cast<int32_t>(chance(2) ? 0 : random.integer(1, std::min<int64_t>(kMostLogitBiases, vocabulary)));
  const int64_t stride = vocabulary / std::max(p.biases.count, 1);
  for (int32_t i = 0; i < p.biases.count; ++i) {
    p.biases.tokens[i] = static_cast<int32_t>(i * stride);
    p.biases.values[i] = random.uniform(-5.0f, 5.0f);
  }
  const int64_t remembered = random.integer(0, 150), kinds = chance(2) ? 70 : 2;
  for (int64_t i = 0; i < remembered; ++i)
    remember(row, {static_cast<int32_t>(random.integer(-1, std::min<int64_t>(vocabulary, kinds)))});
  return row;
}

/// ln of softmax(logits)[token] in f64: what is no number weighs nothing, an infinite largest logit takes all.
inline double log_probability(const std::vector<float>& logits, int32_t token) {
  double largest = -kInfinity, total = 0;
  for (const float logit : logits)
    if (!std::isnan(logit)) largest = std::max(largest, double{logit});
  const double own = double{logits[static_cast<size_t>(token)]};
  if (std::isinf(largest)) return own == largest ? 0.0 : -double{kInfinity};
  if (std::isnan(own)) return -double{kInfinity};
  for (const float logit : logits)
    if (!std::isnan(logit)) total += std::exp(double{logit} - largest);
  return own - largest - std::log(total);
}

}  // namespace ocellus::test
