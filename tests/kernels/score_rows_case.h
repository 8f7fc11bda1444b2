// One call of score_rows: random inputs, and the contract in double precision.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/score_rows.h"
#include "tests/kernels/score_rows_past.h"
#include "tests/support/device.h"
#include "tests/support/random.h"

namespace ocellus::test {

struct ScoreShape {
  int64_t rows, window;  // n, r
  int32_t heads, kv_heads, dim;
  std::vector<RunShape> runs = {};
  bool calibrates = false;
  RopePairing pairing = RopePairing::kHalves;
};

/// Inputs of one call. Chunk rows behind the last, gaps between query rows, dead slots and values are NaN.
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
    calibration_.on = shape.calibrates;
    calibration_.tau_low = 0.25f;
    calibration_.tau_high = 1.5f;
  }

  Half* key(int64_t kv_head, int64_t row) { return keys_.data() + (kv_head * capacity() + row) * shape_.dim; }
  Activations& query() { return query_; }
  KvCalibration& calibration() { return calibration_; }

  /// Runs the op and checks everything but the numbers. Scores of each key/value head.
  std::vector<std::vector<float>> score(Queue& queue) {
    Guarded<float> scores(shape_.kv_heads, shape_.rows, shape_.rows + 3);
    const int64_t bytes =
        score_rows_scratch_bytes(shape_.window, shape_.rows, shape_.heads, shape_.dim, queue.traits());
    Guarded<std::byte> scratch(1, bytes);
    std::memset(scratch.data(), 0xFF, static_cast<size_t>(bytes));  // NaN: what was there before must not matter
    score_rows({.query = query_.view(),
                .query_heads = shape_.heads,
                .rows = KvLayerRows::head_major(keys_.data(), nullptr, shape_.kv_heads, shape_.dim, capacity()),
                .row_count = shape_.rows,
                .runs = past_.runs().data(),
                .run_count = static_cast<int32_t>(past_.runs().size()),
                .layer = past_.layer(),
                .rope = past_.rope(),
                .calibration = calibration_,
                .scores = scores.view(),
                .scratch = scratch.view()},
               queue);
    REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
    CHECK(scores.intact());
    CHECK(scores.untouched_count() == 0);
    CHECK(scratch.intact());
    std::vector<std::vector<float>> out;
    for (int64_t g = 0; g < shape_.kv_heads; ++g) out.emplace_back(&scores.at(g, 0), &scores.at(g, 0) + shape_.rows);
    return out;
  }

  /// The contract in double precision.
  std::vector<double> reference(int32_t kv_head) {
    const std::vector<ScorePast::Slot> past = past_.slots_of(kv_head);
    std::vector<std::vector<double>> own;
    for (int64_t row = 0; row < shape_.rows; ++row) {
      own.emplace_back();
      for (int64_t e = 0; e < shape_.dim; ++e)
        own.back().push_back(static_cast<double>(half_to_float(key(kv_head, row)[e])));
    }
    std::vector<double> sums(static_cast<size_t>(shape_.rows));
    const int32_t group = shape_.heads / shape_.kv_heads;
    for (int64_t t = 0; t < shape_.window; ++t)
      for (int32_t head = kv_head * group; head < (kv_head + 1) * group; ++head) add_line(t, head, past, own, sums);
    for (double& sum : sums) sum /= group;
    return sums;
  }

  void check_numbers(const std::vector<std::vector<float>>& scores, double tolerance) {
    for (int32_t g = 0; g < shape_.kv_heads; ++g) {
      const std::vector<double> expected = reference(g);
      for (size_t row = 0; row < expected.size(); ++row) {
        CAPTURE(g);
        CAPTURE(row);
        const auto got = static_cast<double>(scores[static_cast<size_t>(g)][row]);
        REQUIRE(std::abs(got - expected[row]) < tolerance * expected[row] + tolerance * 1e-2);
      }
    }
  }

 private:
  int64_t width() const { return int64_t{shape_.heads} * shape_.dim; }
  int64_t capacity() const { return shape_.rows + 2; }

  /// Adds the attention of one line to the sums.
  void add_line(int64_t t, int32_t head, const std::vector<ScorePast::Slot>& past,
                const std::vector<std::vector<double>>& own, std::vector<double>& sums) const {
    const auto score_of = [&](const std::vector<double>& key) {
      double score = 0;
      for (int64_t e = 0; e < shape_.dim; ++e)
        score += static_cast<double>(query_.get(t, head * shape_.dim + e)) * key[static_cast<size_t>(e)];
      return score / std::sqrt(static_cast<double>(shape_.dim));
    };
    std::vector<double> scores, packed;
    for (const ScorePast::Slot& slot : past)
      (slot.calibrated && calibration_.on ? packed : scores).push_back(score_of(slot.key));
    calibrate(packed);
    scores.insert(scores.end(), packed.begin(), packed.end());
    const auto before = static_cast<int64_t>(scores.size());
    const int64_t visible = shape_.rows - shape_.window + t + 1;
    for (int64_t row = 0; row < visible; ++row) scores.push_back(score_of(own[static_cast<size_t>(row)]));
    const double largest = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (double& score : scores) sum += score = std::exp(score - largest);
    for (int64_t row = 0; row < visible; ++row)
      sums[static_cast<size_t>(row)] += scores[static_cast<size_t>(before + row)] / sum;
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
};

}  // namespace ocellus::test
