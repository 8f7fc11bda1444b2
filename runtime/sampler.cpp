#include "runtime/sampler.h"

#include <algorithm>
#include <cmath>

namespace ocellus {

template <>
struct TypeName<Candidate> {
  static constexpr const char* value = "pair";
};

namespace {

/// More likely first; equal ones by token id, so that the order is total.
bool comes_before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

int32_t most_likely(const float* logits, int64_t vocabulary) {
  int32_t best = -1;
  for (int64_t i = 0; i < vocabulary; ++i)
    if (!std::isnan(logits[i]) && (best < 0 || logits[i] > logits[best])) best = static_cast<int32_t>(i);
  return best;
}

void penalise_repetition(float* logits, int64_t vocabulary, float penalty, const int32_t* tokens, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const int32_t token = tokens[i];
    if (token < 0 || token >= vocabulary) continue;
    // A token that occurs several times is penalised once.
    if (std::find(tokens, tokens + i, token) != tokens + i) continue;
    float& logit = logits[token];
    logit = logit > 0 ? logit / penalty : logit * penalty;
  }
}

/// Candidates from the most likely down. Only as many are put in order as somebody looks at: a vocabulary is large, and
/// the token is nearly always found among the first few.
class Ranking {
 public:
  Ranking(Candidate* candidates, int64_t count) : candidates_(candidates), count_(count) {}

  int64_t count() const { return count_; }
  const Candidate& at(int64_t i) {
    if (i >= sorted_) sort_first(std::max(i + 1, sorted_ * 8));
    return candidates_[i];
  }
  /// Forgets all but the `count` most likely.
  void keep(int64_t count) {
    sort_first(count);
    count_ = count;
  }
  /// e^((logit - largest logit) / temperature)
  double weight(int64_t i, float temperature) {
    const float largest = at(0).logit;
    return std::exp((double{at(i).logit} - largest) / temperature);
  }
  double total_weight(float temperature) {
    const double largest = at(0).logit;
    double total = 0;
    for (int64_t i = 0; i < count_; ++i) total += std::exp((candidates_[i].logit - largest) / temperature);
    return total;
  }

 private:
  void sort_first(int64_t count) {
    const int64_t end = std::min(count, count_);
    if (end <= sorted_) return;
    std::partial_sort(candidates_ + sorted_, candidates_ + end, candidates_ + count_, comes_before);
    sorted_ = end;
  }

  Candidate* candidates_;
  int64_t count_;
  int64_t sorted_ = 0;
};

/// Keeps the fewest candidates whose probabilities reach top_p; at least one.
void cut_top_p(Ranking& ranking, float top_p) {
  const double wanted = top_p * ranking.total_weight(1.0f);
  double sum = 0;
  for (int64_t i = 0; i < ranking.count(); ++i) {
    sum += ranking.weight(i, 1.0f);
    if (sum >= wanted) return ranking.keep(i + 1);
  }
}

void cut_min_p(Ranking& ranking, float min_p) {
  const float least = ranking.at(0).logit + std::log(min_p);
  int64_t kept = 1;
  while (kept < ranking.count() && ranking.at(kept).logit >= least) ++kept;
  ranking.keep(kept);
}

int32_t draw(Ranking& ranking, float temperature, float uniform) {
  double left = uniform * ranking.total_weight(temperature);
  for (int64_t i = 0; i < ranking.count(); ++i) {
    left -= ranking.weight(i, temperature);
    if (left < 0) return ranking.at(i).token;
  }
  return ranking.at(ranking.count() - 1).token;
}

}  // namespace

Status check_sampler_params(const SamplerParams& p) {
  if (!(p.temperature >= 0) || !std::isfinite(p.temperature))
    return OCELLUS_FAIL(Code::kBadArgument, "the temperature must be 0 or more");
  if (p.top_k < 0) return OCELLUS_FAIL(Code::kBadArgument, "top-k must be 0 or more, not %d", p.top_k);
  if (!(p.top_p > 0 && p.top_p <= 1)) return OCELLUS_FAIL(Code::kBadArgument, "top-p must lie in (0, 1]");
  if (!(p.min_p >= 0 && p.min_p <= 1)) return OCELLUS_FAIL(Code::kBadArgument, "min-p must lie in [0, 1]");
  if (!(p.repetition_penalty > 0) || !std::isfinite(p.repetition_penalty))
    return OCELLUS_FAIL(Code::kBadArgument, "the repetition penalty must be positive");
  return {};
}

float philox_uniform(uint64_t seed, uint64_t counter) {
  uint32_t key[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  uint32_t x[4] = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * x[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * x[2];
    const uint32_t next[4] = {static_cast<uint32_t>(b >> 32) ^ x[1] ^ key[0], static_cast<uint32_t>(b),
                              static_cast<uint32_t>(a >> 32) ^ x[3] ^ key[1], static_cast<uint32_t>(a)};
    std::copy(next, next + 4, x);
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return static_cast<float>(x[0] >> 8) * (1.0f / 16777216.0f);
}

Status SamplerWorkspace::lay_out(int64_t vocabulary, RowSink& sink) {
  return take_rows(sink, "sampler candidates", Lifetime::kScratch, Phase::kDecode, 1, vocabulary, &candidates);
}

int32_t sample_token(float* logits, int64_t vocabulary, const SamplerParams& params, const int32_t* recent_tokens,
                     int64_t recent_count, uint64_t counter, const SamplerWorkspace& workspace) {
  if (params.repetition_penalty != 1.0f)
    penalise_repetition(logits, vocabulary, params.repetition_penalty, recent_tokens, recent_count);
  if (params.temperature == 0) return most_likely(logits, vocabulary);

  Candidate* candidates = workspace.candidates.data;
  int64_t count = 0;
  for (int64_t i = 0; i < vocabulary; ++i)
    if (!std::isnan(logits[i])) candidates[count++] = {logits[i], static_cast<int32_t>(i)};
  if (count == 0) return -1;

  Ranking ranking(candidates, count);
  if (params.top_k > 0) ranking.keep(std::min<int64_t>(params.top_k, count));
  // Differences to an infinite logit are not numbers.
  if (std::isinf(ranking.at(0).logit)) return ranking.at(0).token;
  if (params.top_p < 1) cut_top_p(ranking, params.top_p);
  if (params.min_p > 0) cut_min_p(ranking, params.min_p);
  return draw(ranking, params.temperature, philox_uniform(params.seed, counter));
}

}  // namespace ocellus
