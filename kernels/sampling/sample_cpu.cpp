#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/backends.h"
#include "kernels/base/hash_term.h"
#include "kernels/sampling/sample.h"

namespace ocellus {
namespace {

struct Candidate {
  float logit = 0.0f;
  int32_t token = 0;
};

/// More probable first; equal ones by token id, so that the order is total.
bool comes_before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

uint64_t hash_logits(const float* logits, int64_t vocabulary) {
  uint64_t hash = 0;
  for (int64_t i = 0; i < vocabulary; ++i) {
    uint32_t bits;
    std::memcpy(&bits, logits + i, sizeof bits);
    hash += hash_term(static_cast<uint32_t>(i), bits);
  }
  return hash;
}

int32_t most_likely(const float* logits, int64_t vocabulary) {
  int32_t best = kNoTokenSampled;
  for (int64_t i = 0; i < vocabulary; ++i)
    if (!std::isnan(logits[i]) && (best < 0 || logits[i] > logits[best])) best = static_cast<int32_t>(i);
  return best;
}

void penalise_repetition(float* logits, int64_t vocabulary, float penalty, const RecentTokens& recent) {
  const int32_t* const tokens = recent.tokens;
  for (int32_t i = 0; i < recent.kept(); ++i) {
    const int32_t token = tokens[i];
    if (token < 0 || token >= vocabulary) continue;
    // A token that occurs several times is penalised once.
    if (std::find(tokens, tokens + i, token) != tokens + i) continue;
    float& logit = logits[token];
    logit = logit > 0 ? logit / penalty : logit * penalty;
  }
}

void mask_tokens(float* logits, int64_t vocabulary, const uint32_t* mask) {
  for (int64_t i = 0; i < vocabulary; ++i)
    if ((mask[i / kMaskTokens] >> (i % kMaskTokens) & 1) == 0) logits[i] = std::numeric_limits<float>::quiet_NaN();
}

/// Candidates from the most probable down. Only as many are sorted as are needed: a vocabulary is large, and the token
/// is nearly always among the first few.
class Ranking {
 public:
  Ranking(Candidate* candidates, int64_t count) : candidates_(candidates), count_(count) {}

  int64_t count() const { return count_; }
  const Candidate& at(int64_t i) {
    if (i >= sorted_) sort_first(std::max(i + 1, sorted_ * 8));
    return candidates_[i];
  }
  /// Drops all but the `count` most probable.
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
  // Rounded once, so that every backend computes the same float.
  const float least = static_cast<float>(ranking.at(0).logit + std::log(double{min_p}));
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

/// `mask`: null if the row has none. `candidates` has room for the vocabulary.
int32_t choose_token(float* logits, int64_t vocabulary, const StepRow& row, const uint32_t* mask,
                     Candidate* candidates) {
  const SamplerParams& params = row.sampler;
  if (params.repetition_penalty != 1.0f) penalise_repetition(logits, vocabulary, params.repetition_penalty, row.recent);
  if (mask != nullptr) mask_tokens(logits, vocabulary, mask);
  if (params.temperature == 0) return most_likely(logits, vocabulary);

  int64_t count = 0;
  for (int64_t i = 0; i < vocabulary; ++i)
    if (!std::isnan(logits[i])) candidates[count++] = {logits[i], static_cast<int32_t>(i)};
  if (count == 0) return kNoTokenSampled;

  Ranking ranking(candidates, count);
  if (params.top_k > 0) ranking.keep(std::min<int64_t>(params.top_k, count));
  // Differences to an infinite logit are NaN.
  if (std::isinf(ranking.at(0).logit)) return ranking.at(0).token;
  if (params.top_p < 1) cut_top_p(ranking, params.top_p);
  if (params.min_p > 0) cut_min_p(ranking, params.min_p);
  return draw(ranking, params.temperature, philox_uniform(params.seed, row.drawn_count));
}

/// Returns the log-probability of `token` at temperature 1, among all logits; `best` is the most probable one.
float log_probability(const float* logits, int64_t vocabulary, int32_t token, int32_t best) {
  const double largest = logits[best];
  const double gap = logits[token] - largest;
  if (std::isinf(largest)) return logits[token] == logits[best] ? 0.0f : -std::numeric_limits<float>::infinity();
  if (std::isnan(gap)) return -std::numeric_limits<float>::infinity();
  double total = 0;
  for (int64_t i = 0; i < vocabulary; ++i)
    if (!std::isnan(logits[i])) total += std::exp(logits[i] - largest);
  return static_cast<float>(gap - std::log(total));
}

}  // namespace

int64_t sample_scratch_bytes(int64_t rows, int64_t vocabulary, const DeviceTraits& device) {
  if (rows <= 0) return 0;
  if (device.is_cuda()) {
    // Fewer rows have more parts each, but not more than this in total.
    const int64_t parts = std::min(rows * sample_parts(1, vocabulary), kMaxSampleParts);
    return std::max(parts, rows) * static_cast<int64_t>(sizeof(SamplePart));
  }
  return std::min<int64_t>(rows, device.thread_count) * vocabulary * static_cast<int64_t>(sizeof(Candidate));
}

void cpu::sample_tokens(const SampleTokensArgs& args, Queue& queue) {
  const int64_t rows = args.logits.rows, vocabulary = args.logits.cols;
  if (args.scratch.cols * args.scratch.rows < sample_scratch_bytes(rows, vocabulary, queue.traits()))
    return queue.fail(OCELLUS_FAIL(Code::kInternal, "sample_tokens: the scratch memory is too small"));
  const bool row_has_own_room = rows <= queue.thread_count();
  Candidate* const room = reinterpret_cast<Candidate*>(args.scratch.data);
  queue.parallel(rows, 1, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t b = begin; b < end; ++b) {
      StepRow& row = args.steps[b];
      if (row.active == 0) continue;
      float* const logits = args.logits.row(b);
      StepResult result;
      result.logits_hash = hash_logits(logits, vocabulary);
      int32_t next;
      if (row.forced != 0) {
        next = args.forced[row.step % kResultSteps * args.forced_stride + b];
        result.token = most_likely(logits, vocabulary);
        if (result.token >= 0) result.log_probability = log_probability(logits, vocabulary, next, result.token);
      } else {
        Candidate* const candidates = room + (row_has_own_room ? b : worker) * vocabulary;
        const uint32_t* const mask = row.masked != 0 ? args.masks + b * args.mask_stride : nullptr;
        result.token = choose_token(logits, vocabulary, row, mask, candidates);
        next = std::max(result.token, 0);
      }
      args.results[row.step % kResultSteps * args.result_stride + b] = result;
      move_on(row, next, args.advance ? args.tiles + b * args.tiles_per_row : nullptr);
    }
  });
}

}  // namespace ocellus
