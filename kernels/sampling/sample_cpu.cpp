#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/backends.h"
#include "kernels/base/hash_term.h"
#include "kernels/sampling/adjust_logit.h"
#include "kernels/sampling/sample.h"

namespace ocellus {
namespace {

struct Candidate {
  float logit = 0.0f;
  int32_t token = 0;
};

/// More probable first or, for typical-p, nearer to a logit first; equal ones by token id, so that the order is total.
struct CandidateOrder {
  bool by_distance = false;
  float centre = 0;

  bool operator()(const Candidate& a, const Candidate& b) const {
    const float x = value(a.logit), y = value(b.logit);
    return x != y ? x > y : a.token < b.token;
  }
  float value(float logit) const { return by_distance ? -std::fabs(logit - centre) : logit; }
};

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

void add_biases(float* logits, int64_t vocabulary, const LogitBiases& biases) {
  for (int32_t i = 0; i < biases.count; ++i) {
    const int32_t token = biases.tokens[i];
    if (token >= 0 && token < vocabulary) logits[token] += biases.values[i];
  }
}

void penalise(float* logits, int64_t vocabulary, const Penalties& penalties, const RecentTokens& recent) {
  for (int32_t age = 0; age < recent.kept(); ++age) {
    const int32_t token = recent_token(recent, age);
    if (token < 0 || token >= vocabulary || !is_newest(recent, age)) continue;
    logits[token] = penalised(logits[token], penalties, recent, age);
  }
}

void mask_tokens(float* logits, int64_t vocabulary, const uint32_t* mask) {
  for (int64_t i = 0; i < vocabulary; ++i)
    if (!has_token(mask, i)) logits[i] = std::numeric_limits<float>::quiet_NaN();
}

/// Candidates in their order. Only as many are sorted as are needed: a vocabulary is large, and the token is nearly
/// always among the first few.
class Ranking {
 public:
  Ranking(Candidate* candidates, int64_t count, const CandidateOrder& order = {})
      : candidates_(candidates), count_(count), order_(order) {}

  int64_t count() const { return count_; }
  const Candidate& at(int64_t i) {
    if (i >= sorted_) sort_first(std::max(i + 1, sorted_ * 8));
    return candidates_[i];
  }
  /// Candidate i of no particular order.
  const Candidate& any(int64_t i) const { return candidates_[i]; }
  /// Drops all but the first `count`.
  void keep(int64_t count) {
    sort_first(count);
    count_ = count;
  }
  /// Drops logits below `least`.
  void drop_below(float least) {
    const auto is_low = [=](const Candidate& c) { return c.logit < least; };
    *this = Ranking(candidates_, std::remove_if(candidates_, candidates_ + count_, is_low) - candidates_);
  }
  /// The same candidates in another order.
  Ranking reordered(const CandidateOrder& order) const { return {candidates_, count_, order}; }

 private:
  void sort_first(int64_t count) {
    const int64_t end = std::min(count, count_);
    if (end <= sorted_) return;
    std::partial_sort(candidates_ + sorted_, candidates_ + end, candidates_ + count_, order_);
    sorted_ = end;
  }

  Candidate* candidates_;
  int64_t count_;
  CandidateOrder order_;
  int64_t sorted_ = 0;
};

/// Weights e^((logit - largest) / temperature).
struct Weighing {
  double largest = 0;
  double temperature = 1;

  double of(const Candidate& c) const { return std::exp((c.logit - largest) / temperature); }
  double total(const Ranking& ranking) const {
    double total = 0;
    for (int64_t i = 0; i < ranking.count(); ++i) total += of(ranking.any(i));
    return total;
  }
};

void cut_sigmas(Ranking& ranking, float sigmas) {
  const float largest = ranking.at(0).logit;
  GapSums gaps;
  for (int64_t i = 0; i < ranking.count(); ++i)
    if (const float logit = ranking.any(i).logit; !std::isinf(logit)) gaps.add(gap_units(logit, largest));
  ranking.drop_below(least_in_sigmas(largest, sigmas, std::log(gaps.variance())));
}

/// Keeps the fewest candidates whose probabilities reach `part`; at least one. `largest`: of their logits.
void cut_share(Ranking& ranking, float part, float largest) {
  const Weighing weighing{largest};
  const double wanted = part * weighing.total(ranking);
  double sum = 0;
  for (int64_t i = 0; i < ranking.count(); ++i) {
    sum += weighing.of(ranking.at(i));
    if (sum >= wanted) return ranking.keep(i + 1);
  }
}

void cut_typical(Ranking& ranking, float part) {
  const float largest = ranking.at(0).logit;
  const Weighing weighing{largest};
  double total = 0, gaps = 0;
  for (int64_t i = 0; i < ranking.count(); ++i) {
    const double weight = weighing.of(ranking.any(i));
    total += weight;
    if (weight > 0) gaps += weight * (double{largest} - ranking.any(i).logit);
  }
  Ranking nearest = ranking.reordered({true, typical_centre(largest, gaps / total)});
  cut_share(nearest, part, largest);
  ranking = nearest.reordered({});
}

void cut_min_p(Ranking& ranking, float min_p) {
  // Rounded once, so that every backend computes the same float.
  const float least = static_cast<float>(ranking.at(0).logit + std::log(double{min_p}));
  int64_t kept = 1;
  while (kept < ranking.count() && ranking.at(kept).logit >= least) ++kept;
  ranking.keep(kept);
}

int32_t draw(Ranking& ranking, float temperature, float uniform) {
  const Weighing weighing{ranking.at(0).logit, temperature};
  double left = uniform * weighing.total(ranking);
  for (int64_t i = 0; i < ranking.count(); ++i) {
    left -= weighing.of(ranking.at(i));
    if (left < 0) return ranking.at(i).token;
  }
  return ranking.at(ranking.count() - 1).token;
}

/// `mask`: null if the row has none. `candidates` has room for the vocabulary.
int32_t choose_token(float* logits, int64_t vocabulary, const StepRow& row, const uint32_t* mask,
                     Candidate* candidates) {
  const SamplerParams& params = row.sampler;
  add_biases(logits, vocabulary, params.biases);
  if (params.penalties.any()) penalise(logits, vocabulary, params.penalties, row.recent);
  if (mask != nullptr) mask_tokens(logits, vocabulary, mask);
  if (params.temperature == 0) return most_likely(logits, vocabulary);

  int64_t count = 0;
  for (int64_t i = 0; i < vocabulary; ++i)
    if (!std::isnan(logits[i])) candidates[count++] = {logits[i], static_cast<int32_t>(i)};
  if (count == 0) return kNoTokenSampled;

  Ranking ranking(candidates, count);
  // Differences to an infinite logit are NaN.
  if (params.top_n_sigma > 0 && !std::isinf(ranking.at(0).logit)) cut_sigmas(ranking, params.top_n_sigma);
  if (params.top_k > 0) ranking.keep(std::min<int64_t>(params.top_k, ranking.count()));
  if (std::isinf(ranking.at(0).logit)) return ranking.at(0).token;
  if (params.typical_p < 1) cut_typical(ranking, params.typical_p);
  if (params.top_p < 1) cut_share(ranking, params.top_p, ranking.at(0).logit);
  if (params.min_p > 0) cut_min_p(ranking, params.min_p);
  return draw(ranking, params.temperature, philox_uniform(params.seed, row.drawn_count));
}

/// Returns the log-probability of `token` at temperature 1, among all logits; `best` is the most probable one.
float log_probability(const float* logits, int64_t vocabulary, int32_t token, int32_t best) {
  return log_share(logits[token], logits[best], log_total_of(logits, vocabulary, logits[best]));
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
        if (args.notes != nullptr && row.sampler.top_tokens >= 0 && result.token >= 0)
          result.log_probability = noted_log_probability(args.notes[b], row, logits, result.token);
      }
      args.results[row.step % kResultSteps * args.result_stride + b] = result;
      move_on(row, next, args.tiles != nullptr ? args.tiles + b * args.tiles_per_row : nullptr);
    }
  });
}

}  // namespace ocellus
