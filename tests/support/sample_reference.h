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

namespace ocellus::test {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct SampledChoice {
  int32_t token = kNoTokenSampled;
  bool sure = true;  // nothing fell so near a border that rounding decides
};

inline std::vector<float> penalised(std::vector<float> logits, const StepRow& row) {
  for (const int32_t token : std::set<int32_t>(row.recent.tokens, row.recent.tokens + row.recent.kept())) {
    if (token < 0 || token >= static_cast<int32_t>(logits.size()) || row.sampler.repetition_penalty == 1) continue;
    float& logit = logits[static_cast<size_t>(token)];
    logit = logit > 0 ? logit / row.sampler.repetition_penalty : logit * row.sampler.repetition_penalty;
  }
  return logits;
}

/// The whole op by definition, with every candidate sorted.
inline SampledChoice brute_force(const std::vector<float>& given, const StepRow& row) {
  const SamplerParams& params = row.sampler;
  const std::vector<float> logits = penalised(given, row);
  std::vector<std::pair<double, int32_t>> order;  // -logit: pairs sort as the tokens should
  for (size_t i = 0; i < logits.size(); ++i)
    if (!std::isnan(logits[i])) order.emplace_back(-double{logits[i]}, static_cast<int32_t>(i));
  std::sort(order.begin(), order.end());
  if (order.empty()) return {};
  SampledChoice choice{order[0].second, true};
  const double largest = -order[0].first;
  if (params.temperature == 0 || std::isinf(largest)) return choice;
  if (params.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(params.top_k)));
  // The first token with which the sum of the weights reaches `part` of the total.
  const auto reach = [&](double part, double temperature) {
    double total = 0, sum = 0;
    for (const auto& [logit, token] : order) total += std::exp((-logit - largest) / temperature);
    size_t end = 0;
    while (end < order.size()) {
      const double before = sum;
      sum += std::exp((-order[end++].first - largest) / temperature);
      if (sum < part * total) continue;
      const double nearest = std::min(sum / total - part, part - before / total);
      // The first token is certain to be reached, however small the part.
      if (nearest < 2e-9 && !(end == 1 && sum / total - part > 2e-9)) choice.sure = false;
      break;
    }
    return end;
  };
  if (params.top_p < 1) order.resize(reach(params.top_p, 1));
  const float least = static_cast<float>(largest + std::log(double{params.min_p}));
  while (params.min_p > 0 && -order.back().first < double{least}) order.pop_back();
  choice.token = order[reach(double{philox_uniform(params.seed, row.drawn_count)}, params.temperature) - 1].second;
  return choice;
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
  p.repetition_penalty = chance(2) ? 1 : random.uniform(0.6f, 1.8f);
  p.seed = random.bits();
  const int64_t remembered = random.integer(0, 150);
  for (int64_t i = 0; i < remembered; ++i)
    remember(row, {static_cast<int32_t>(random.integer(-1, std::min<int64_t>(vocabulary, 70)))});
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
