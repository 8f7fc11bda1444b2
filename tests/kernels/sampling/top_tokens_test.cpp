// Log-probabilities of the chosen and the most probable tokens, against sums in f64.
#include "kernels/sampling/top_tokens.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "tests/support/random.h"
#include "tests/support/sample_batch.h"
#include "tests/support/sample_reference.h"

namespace ocellus {
namespace {

using test::kInfinity;
using test::kNan;
using test::log_probability;
using Batch = test::SampleBatch;

/// All tokens whose logit is a number, the most probable first, lower ids first among equal ones.
std::vector<int32_t> by_probability(const std::vector<float>& logits) {
  std::vector<int32_t> order;
  const auto logit = [&](int32_t token) { return logits[static_cast<size_t>(token)]; };
  for (size_t i = 0; i < logits.size(); ++i)
    if (!std::isnan(logits[i])) order.push_back(static_cast<int32_t>(i));
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return logit(a) > logit(b); });
  return order;
}

/// The error of a log-probability, relative where it is large; infinity if one is infinite and the other is not.
double error_of(float given, double expected) {
  if (std::isinf(expected) || std::isinf(given)) return double{given} == expected ? 0 : double{kInfinity};
  return std::abs(given - expected) / std::max(1.0, std::abs(expected));
}

}  // namespace

TEST_CASE("the most probable tokens and the choice have the probabilities of the model, whatever the sampler does") {
  test::for_each_backend([](Queue& queue) {
    test::Random random(41);
    double worst = 0;
    for (const auto& [rows, vocabulary] : {std::pair<int64_t, int64_t>{40, 1},
                                           {64, 2},
                                           {64, 19},
                                           {100, 257},
                                           {40, 1000},
                                           {12, 5003},
                                           {4, 49152},
                                           {2, 152064}}) {
      Batch batch(queue, rows, vocabulary, random.integer(0, 5));
      std::vector<std::vector<float>> logits;
      for (int64_t b = 0; b < rows; ++b) {
        logits.push_back(test::random_logits(random, vocabulary));
        batch.set_logits(b, logits.back());
        StepRow& row = batch.step(b) = test::random_row(random, vocabulary);
        row.sampler.top_tokens = static_cast<int32_t>(random.integer(-1, kMostTopTokens));
        row.active = random.integer(0, 9) != 0;
        if (b % 5 == 1) batch.mask(b, [&](int64_t) { return random.integer(0, 2) != 0; });
        if (b % 7 == 2) batch.force(b, row.step, static_cast<int32_t>(random.integer(0, vocabulary - 1)));
      }
      const std::vector<StepRow> before(batch.steps.data(), batch.steps.data() + rows);
      const int64_t untouched = batch.tops.untouched_count();
      batch.run();
      int64_t listed = 0;
      for (int64_t b = 0; b < rows; ++b) {
        CAPTURE(vocabulary);
        CAPTURE(b);
        const StepRow& row = before[static_cast<size_t>(b)];
        const auto& given = logits[static_cast<size_t>(b)];
        if (row.active == 0) continue;
        const StepResult& result = batch.result(row.step, b);
        if (row.sampler.top_tokens < 0) {
          if (row.forced == 0) REQUIRE(result.log_probability == 0);
          continue;
        }
        ++listed;
        const TopTokens& top = batch.top(row.step, b);
        const std::vector<int32_t> order = by_probability(given);
        REQUIRE(top.count == std::min<int64_t>(row.sampler.top_tokens, std::ssize(order)));
        for (int32_t i = 0; i < top.count; ++i) {
          REQUIRE(top.tokens[i] == order[static_cast<size_t>(i)]);
          worst = std::max(worst, error_of(top.log_probabilities[i], log_probability(given, top.tokens[i])));
        }
        if (result.token == kNoTokenSampled) continue;
        const int32_t chosen = batch.step(b).token;
        worst = std::max(worst, error_of(result.log_probability, log_probability(given, chosen)));
      }
      CHECK(batch.tops.untouched_count() == untouched - listed);
    }
    MESSAGE("largest error of a log-probability: " << worst);
    CHECK(worst < 1e-7);
  });
}

TEST_CASE("equal logits are listed by token, infinite ones take all, and what is no number is not listed") {
  test::for_each_backend([](Queue& queue) {
    const auto list = [&](const std::vector<float>& logits) {
      Batch batch(queue, 1, static_cast<int64_t>(logits.size()));
      batch.set_logits(0, logits);
      batch.step(0).sampler.top_tokens = 3;
      batch.run();
      const TopTokens& top = batch.top(0, 0);
      std::vector<std::pair<int32_t, float>> listed;
      for (int32_t i = 0; i < top.count; ++i) listed.emplace_back(top.tokens[i], top.log_probabilities[i]);
      return listed;
    };
    using List = std::vector<std::pair<int32_t, float>>;
    const float quarter = std::log(0.25f);
    CHECK(list({2, 2, 2, 2}) == List{{0, quarter}, {1, quarter}, {2, quarter}});
    CHECK(list({-0.0f, 0.0f, kNan, 0.0f, -0.0f}) == List{{0, quarter}, {1, quarter}, {3, quarter}});
    CHECK(list({1, kInfinity, 2, kInfinity}) == List{{1, 0.0f}, {3, 0.0f}, {2, -kInfinity}});
    CHECK(list({kNan, 5, -kInfinity}) == List{{1, 0.0f}, {2, -kInfinity}});
    CHECK(list({-kInfinity, -kInfinity}) == List{{0, 0.0f}, {1, 0.0f}});
    CHECK(list({kNan, kNan}).empty());
  });
}

}  // namespace ocellus
