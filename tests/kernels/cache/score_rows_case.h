// One call of score_rows: random inputs, and the contract in double precision.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "kernels/cache/score_rows.h"
#include "tests/kernels/cache/score_rows_past.h"
#include "tests/support/device.h"
#include "tests/support/random.h"

namespace ocellus::test {

/// Inputs of one call. Chunk rows after the last, gaps between query rows, dead slots and values are NaN.
class ScoreCase {
 public:
  ScoreCase(const ScoreShape& shape, uint64_t seed, Queue& queue)
      : shape_(shape),
        random_(seed),
        past_(shape.kv_heads, shape.dim, shape.pairing),
        query_(queue, shape.window, width(), width() + (queue.on_cuda() ? 8 : 5)),
        keys_(static_cast<size_t>(shape.kv_heads * capacity() * shape.dim), kHalfNan) {
    for (const RunShape& run : shape.runs) past_.add(run, queue.on_cuda(), random_);
    for (int64_t t = 0; t < shape.window; ++t)
      for (int64_t i = 0; i < width(); ++i) query_.set(t, i, random_.normal());
    for (int32_t g = 0; g < shape.kv_heads; ++g)
      for (int64_t i = 0; i < shape.rows * shape.dim; ++i) key(g, 0)[i] = float_to_half(random_.normal());
    calibration_ = {.on = shape.calibrates, .tau_low = 0.25f, .tau_high = 1.5f};
    for (int64_t row = 0; row < shape.rows; ++row) is_visual_.push_back(random_.integer(0, 1) == 0 ? 1 : 0);
    readers_.assign(static_cast<size_t>(shape.rows) + 1, 0);
    for (int64_t row = shape.rows; row-- > 0;) {
      const bool reads = random_.integer(0, 2) == 0;
      readers_[static_cast<size_t>(row)] = readers_[static_cast<size_t>(row) + 1] + (reads ? 1 : 0);
      const int64_t t = row - shape.rows + shape.window;
      for (int64_t i = 0; shape.some_read && !reads && t >= 0 && i < width(); ++i) query_.set(t, i, 0);
    }
  }

  Half* key(int64_t kv_head, int64_t row) { return keys_.data() + (kv_head * capacity() + row) * shape_.dim; }
  Activations& query() { return query_; }
  KvCalibration& calibration() { return calibration_; }

  /// Runs the op and checks everything but the numbers. Scores of each key/value head.
  std::vector<std::vector<float>> score(Queue& queue, bool adds = false, float before = 0) {
    Guarded<float> scores(shape_.kv_heads, shape_.rows, shape_.rows + 3);
    for (int64_t g = 0; adds && g < shape_.kv_heads; ++g) std::fill_n(scores.view().row(g), shape_.rows, before);
    Guarded<float> facts(shape_.kv_heads, shape_.rows, shape_.rows + 2);
    const int64_t bytes =
        score_rows_scratch_bytes(shape_.window, shape_.rows, shape_.heads, shape_.dim, queue.traits());
    Guarded<std::byte> scratch(1, bytes);
    std::memset(scratch.data(), 0xFF, static_cast<size_t>(bytes));  // NaN: what was there before must not matter
    score_rows({.query = query_.view(),
                .query_heads = shape_.heads,
                .rows = KvLayerRows::head_major(keys_.data(), nullptr, shape_.kv_heads, shape_.dim, capacity()),
                .row_count = shape_.rows,
                .past = {.runs = past_.runs().data(),
                         .count = static_cast<int32_t>(past_.runs().size()),
                         .layer = past_.layer(),
                         .rope = past_.rope(),
                         .calibration = calibration_},
                .observers = observers(),
                .adds = adds,
                .adds_one = shape_.adds_one,
                .fact = shape_.fact,
                .facts = shape_.fact == AttentionFact::kNone ? DeviceView<float>() : facts.view(),
                .scores = scores.view(),
                .scratch = scratch.view()},
               queue);
    REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
    CHECK((scores.intact() && scratch.intact() && facts.intact()));
    CHECK(scores.untouched_count() == 0);
    CHECK(facts.untouched_count() == (shape_.fact == AttentionFact::kNone ? shape_.kv_heads * shape_.rows : 0));
    facts_.clear();
    for (int64_t g = 0; g < shape_.kv_heads; ++g) facts_.emplace_back(&facts.at(g, 0), &facts.at(g, 0) + shape_.rows);
    std::vector<std::vector<float>> out;
    for (int64_t g = 0; g < shape_.kv_heads; ++g) out.emplace_back(&scores.at(g, 0), &scores.at(g, 0) + shape_.rows);
    return out;
  }

  /// The contract in double precision: scores, and what is told of the attention. Where a row's share of the greatest
  /// is compared with kDensityShare, the latter is that times `slack`.
  struct Expected {
    std::vector<double> scores, facts;
  };
  Expected reference(int32_t kv_head, double slack = 1) {
    const std::vector<ScorePast::Slot> past = past_.slots_of(kv_head);
    std::vector<std::vector<double>> own;
    for (int64_t row = 0; row < shape_.rows; ++row) {
      own.emplace_back();
      for (int64_t e = 0; e < shape_.dim; ++e)
        own.back().push_back(static_cast<double>(half_to_float(key(kv_head, row)[e])));
    }
    Expected sums{std::vector<double>(own.size()), std::vector<double>(own.size())};
    const int32_t group = shape_.heads / shape_.kv_heads;
    for (int64_t t = 0; t < shape_.window; ++t)
      for (int32_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
        add_line(t, head, past, own, slack, sums);
    for (double& sum : sums.scores) sum /= group;
    for (double& sum : sums.facts) sum /= group;
    return sums;
  }

  void check_numbers(const std::vector<std::vector<float>>& scores, double tolerance) {
    for (int32_t g = 0; g < shape_.kv_heads; ++g) {
      const std::vector<double> expected = reference(g).scores;
      for (size_t row = 0; row < expected.size(); ++row) {
        CAPTURE(g);
        CAPTURE(row);
        const auto got = static_cast<double>(scores[static_cast<size_t>(g)][row]);
        REQUIRE(std::abs(got - expected[row]) < tolerance * expected[row] + tolerance * 1e-2);
      }
    }
  }

  /// Checks what the last score() told.
  void check_facts(double tolerance) {
    for (int32_t g = 0; g < shape_.kv_heads; ++g) {
      const Expected most = reference(g, 1 - 1e-3), least = reference(g, 1 + 1e-3);
      for (size_t row = 0; row < most.facts.size(); ++row) {
        CAPTURE(g);
        CAPTURE(row);
        const auto got = static_cast<double>(facts_[static_cast<size_t>(g)][row]);
        const double slack = tolerance * most.facts[row] + tolerance * 1e-1;
        REQUIRE(got <= most.facts[row] + slack);
        REQUIRE(got >= least.facts[row] - slack);
      }
    }
  }
  const std::vector<std::vector<float>>& facts() const { return facts_; }

 private:
  ObservingRows observers() const {
    return {shape_.observers, shape_.observers == Observers::kAll ? nullptr : is_visual_.data(),
            shape_.some_read ? readers_.data() : nullptr, shape_.decay, shape_.see_all};
  }
  int64_t width() const { return int64_t{shape_.heads} * shape_.dim; }
  int64_t capacity() const { return shape_.rows + 2; }

  /// Adds the attention of one line to the sums.
  void add_line(int64_t t, int32_t head, const std::vector<ScorePast::Slot>& past,
                const std::vector<std::vector<double>>& own, double slack, Expected& sums) const {
    const int64_t end = shape_.rows - shape_.window + t + 1, visible = shape_.see_all ? shape_.rows : end;
    const auto reader = static_cast<size_t>(end - 1);
    const bool of_visual = is_visual_[reader] != 0;
    if (shape_.observers != Observers::kAll && of_visual != (shape_.observers == Observers::kVisual)) return;
    if (shape_.some_read && readers_[reader] == readers_[reader + 1]) return;
    std::vector<double> query;
    for (int64_t e = 0; e < shape_.dim; ++e) query.push_back(static_cast<double>(query_.get(t, head * shape_.dim + e)));
    const auto score_of = [&](const std::vector<double>& key) {
      return std::inner_product(query.begin(), query.end(), key.begin(), 0.0) /
             std::sqrt(static_cast<double>(shape_.dim));
    };
    std::vector<double> scores, packed;
    for (const ScorePast::Slot& slot : past)
      (slot.calibrated && calibration_.on ? packed : scores).push_back(score_of(slot.key));
    calibrate(packed);
    scores.insert(scores.end(), packed.begin(), packed.end());
    const auto before = static_cast<int64_t>(scores.size());
    for (int64_t row = 0; row < visible; ++row) scores.push_back(score_of(own[static_cast<size_t>(row)]));
    const double largest = *std::max_element(scores.begin(), scores.end());
    double sum = shape_.adds_one ? std::exp(-largest) : 0;
    const double times = std::pow(static_cast<double>(shape_.decay), shape_.rows - end);
    for (double& score : scores) sum += score = std::exp(score - largest);
    for (int64_t row = 0; row < visible; ++row) {
      const double weight = scores[static_cast<size_t>(before + row)], share = weight / sum;
      sums.scores[static_cast<size_t>(row)] += times * share;
      double& fact = sums.facts[static_cast<size_t>(row)];
      if (shape_.fact == AttentionFact::kEntropy && share > 0) fact -= share * std::log(share);
      if (shape_.fact == AttentionFact::kDensity && weight >= slack * static_cast<double>(kDensityShare))
        fact += 1.0 / static_cast<double>(visible);
    }
  }

  void calibrate(std::vector<double>& scores) const {
    if (scores.size() < 2) return;
    const double low = *std::min_element(scores.begin(), scores.end());
    const double range = *std::max_element(scores.begin(), scores.end()) - low;
    const auto tau_low = static_cast<double>(calibration_.tau_low);
    const auto tau_high = static_cast<double>(calibration_.tau_high);
    const double slope = std::max(0.0, (range + tau_low - tau_high) / (range + 1e-8));
    for (double& score : scores) score = low - tau_low + slope * (score - low);
  }

  ScoreShape shape_;
  Random random_;
  ScorePast past_;
  Activations query_;
  Vector<Half> keys_;
  KvCalibration calibration_;
  Vector<uint8_t> is_visual_;
  Vector<int32_t> readers_;
  std::vector<std::vector<float>> facts_;
};

}  // namespace ocellus::test
