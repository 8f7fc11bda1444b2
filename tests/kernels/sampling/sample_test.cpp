// Sampling against published random numbers, brute-force definitions of its filters, and its own distribution.
#include "kernels/sampling/sample.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "tests/support/random.h"
#include "tests/support/sample_batch.h"

namespace ocellus {
namespace {

using test::remember;
using Batch = test::SampleBatch;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The tokens that `count` draws give, of random numbers 0 and up.
std::vector<int32_t> draws(Queue& queue, const std::vector<float>& logits, const SamplerParams& params, int count) {
  Batch batch(queue, count, static_cast<int64_t>(logits.size()));
  for (int b = 0; b < count; ++b) {
    batch.set_logits(b, logits);
    batch.step(b).sampler = params;
    batch.step(b).drawn_count = static_cast<uint64_t>(b);
  }
  batch.run();
  std::vector<int32_t> tokens;
  for (int b = 0; b < count; ++b) tokens.push_back(batch.result(0, b).token);
  return tokens;
}

int32_t draw(Queue& queue, const std::vector<float>& logits, const SamplerParams& params,
             const std::vector<int32_t>& recent = {}) {
  Batch batch(queue, 1, static_cast<int64_t>(logits.size()));
  batch.set_logits(0, logits);
  batch.step(0).sampler = params;
  remember(batch.step(0), recent);
  batch.run();
  return batch.result(0, 0).token;
}

/// Returns the number of draws, of `count` that show a distribution well.
int draw_count(int count) { return test::is_small_run() ? count / 10 : count; }

/// Every token that comes up in many draws.
std::set<int32_t> reachable(Queue& queue, const std::vector<float>& logits, const SamplerParams& params,
                            int count = draw_count(4000)) {
  const std::vector<int32_t> tokens = draws(queue, logits, params, count);
  return {tokens.begin(), tokens.end()};
}

std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

/// Philox4x32-10 written from the paper, for any counter and key.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> x, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t left = x[0] * uint64_t{0xD2511F53};
    const uint64_t right = x[2] * uint64_t{0xCD9E8D57};
    x = {static_cast<uint32_t>(right >> 32) ^ x[1] ^ key[0], static_cast<uint32_t>(right),
         static_cast<uint32_t>(left >> 32) ^ x[3] ^ key[1], static_cast<uint32_t>(left)};
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }
  return x;
}

float top_24_bits(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

/// The definition: the k most likely, then the shortest head that reaches top_p, then all of at least min_p * the
/// first.
std::set<int32_t> kept_tokens(const std::vector<double>& probabilities, const SamplerParams& params) {
  std::vector<int32_t> order(probabilities.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  const auto p = [&](int32_t token) { return probabilities[static_cast<size_t>(token)]; };
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return p(a) > p(b); });
  if (params.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(params.top_k)));
  double total = 0;
  for (const int32_t token : order) total += p(token);
  std::set<int32_t> kept;
  double sum = 0;
  for (const int32_t token : order) {
    if (!kept.empty() && (sum >= params.top_p * total || p(token) < params.min_p * p(order[0]))) break;
    kept.insert(token);
    sum += p(token);
  }
  return kept;
}

}  // namespace

TEST_CASE("philox gives the published words") {
  // kat_vectors of Random123, philox 4x32 10.
  using Words = std::array<uint32_t, 4>;
  CHECK(philox({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
  CHECK(philox_uniform(0, 0) == top_24_bits(0x6627e8d5));
  test::Random random(1);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t seed = random.bits(), counter = random.bits();
    const Words words = philox({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0},
                               {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    REQUIRE(philox_uniform(seed, counter) == top_24_bits(words[0]));
  }
}

TEST_CASE("greedy takes the most likely token, the lower of equal ones, and never what is no number") {
  test::for_each_backend([](Queue& queue) {
    CHECK(draw(queue, {1, 3, 2}, {}) == 1);
    CHECK(draw(queue, {3, 1, 3, 3}, {}) == 0);
    CHECK(draw(queue, {-0.0f, 0.0f}, {}) == 0);
    CHECK(draw(queue, {0.0f, -0.0f}, {}) == 0);
    CHECK(draw(queue, {kNan, 1, kNan, 2, kNan}, {}) == 3);
    CHECK(draw(queue, {kNan, -kInfinity, kNan}, {}) == 1);
    CHECK(draw(queue, {-kNan, -1e38f, -kNan}, {}) == 1);
    CHECK(draw(queue, {-1, kInfinity, 5}, {}) == 1);
    CHECK(draw(queue, {kNan, kNan}, {}) == kNoTokenSampled);
    CHECK(draw(queue, {-5}, {}) == 0);
  });
}

TEST_CASE("sampling never takes what is no number, and survives infinite logits") {
  const SamplerParams warm{.temperature = 1.0f};
  test::for_each_backend([&](Queue& queue) {
    CHECK(reachable(queue, {kNan, 1, kNan, 1, kNan}, warm, 200) == std::set<int32_t>{1, 3});
    CHECK(draw(queue, {kNan, kNan}, warm) == kNoTokenSampled);
    CHECK(reachable(queue, {0, kInfinity, 0, kInfinity}, warm, 50) == std::set<int32_t>{1});
    CHECK(reachable(queue, {-kInfinity, 2, -kInfinity, 2}, warm, 200) == std::set<int32_t>{1, 3});
    CHECK(reachable(queue, {-kInfinity, -kInfinity}, warm, 50) == std::set<int32_t>{0});
    CHECK(reachable(queue, {3e38f, -3e38f, 3e38f}, warm, 200) == std::set<int32_t>{0, 2});
    CHECK(reachable(queue, {3e38f, -3e38f}, {.temperature = 3e38f}, 200) == std::set<int32_t>{0, 1});
    CHECK(reachable(queue, {1e-44f, 0}, {.temperature = 1e-44f}, 200) == std::set<int32_t>{0, 1});
  });
}

TEST_CASE("top-k, top-p and min-p keep exactly the tokens of their definitions") {
  test::for_each_backend([](Queue& queue) {
    const std::vector<float> fixed = logits_of({0.4, 0.05, 0.3, 0.05, 0.2});
    CHECK(reachable(queue, fixed, {.temperature = 1, .top_k = 1}, 100) == std::set<int32_t>{0});
    CHECK(reachable(queue, fixed, {.temperature = 1, .top_k = 4}) == std::set<int32_t>{0, 1, 2, 4});
    CHECK(reachable(queue, fixed, {.temperature = 1, .top_k = 99}) == std::set<int32_t>{0, 1, 2, 3, 4});
    CHECK(reachable(queue, fixed, {.temperature = 1, .top_p = 0.39f}, 100) == std::set<int32_t>{0});
    CHECK(reachable(queue, fixed, {.temperature = 1, .top_p = 0.41f}) == std::set<int32_t>{0, 2});
    CHECK(reachable(queue, fixed, {.temperature = 1, .top_p = 1e-6f}, 100) == std::set<int32_t>{0});
    CHECK(reachable(queue, fixed, {.temperature = 1, .min_p = 0.49f}) == std::set<int32_t>{0, 2, 4});
    CHECK(reachable(queue, fixed, {.temperature = 1, .min_p = 0.51f}) == std::set<int32_t>{0, 2});
    CHECK(reachable(queue, {2, 1, 2}, {.temperature = 1, .min_p = 1.0f}) == std::set<int32_t>{0, 2});
    // Exact boundaries: a quarter each, half of the mass is two tokens.
    CHECK(reachable(queue, {0, 0, 0, 0}, {.temperature = 1, .top_p = 0.5f}) == std::set<int32_t>{0, 1});

    test::Random random(7);
    const int rounds = test::is_small_run() ? 3 : 60;
    for (int round = 0; round < rounds; ++round) {
      std::vector<double> p(static_cast<size_t>(random.integer(1, 12)));
      for (double& value : p) value = random.uniform(0.05f, 1.0f);
      const SamplerParams params{.temperature = 1.5f,
                                 .top_k = static_cast<int32_t>(random.integer(0, 13)),
                                 .top_p = random.integer(0, 1) != 0 ? random.uniform(0.01f, 1.0f) : 1.0f,
                                 .min_p = random.integer(0, 1) != 0 ? random.uniform(0.0f, 1.0f) : 0.0f,
                                 .seed = random.bits()};
      CAPTURE(round);
      REQUIRE(reachable(queue, logits_of(p), params, draw_count(3000)) == kept_tokens(p, params));
    }
  });
}

TEST_CASE("the repetition penalty weighs on a token once, however often it occurred") {
  const SamplerParams params{.penalties = {.repetition = 2.0f}};
  test::for_each_backend([&](Queue& queue) {
    const auto after_penalty = [&](const std::vector<float>& logits, const std::vector<int32_t>& recent) {
      Batch batch(queue, 1, static_cast<int64_t>(logits.size()));
      batch.set_logits(0, logits);
      batch.step(0).sampler = params;
      remember(batch.step(0), recent);
      batch.run();
      CHECK(batch.result(0, 0).logits_hash == test::hash_of(logits));  // as the model gave them
      return batch.get_logits(0);
    };
    CHECK(after_penalty({4, -4, 4, 0}, {0, 0, 1, 0, 1}) == std::vector<float>{2, -8, 4, 0});
    CHECK(after_penalty({4, -4}, {-1, 2, 1000000}) == std::vector<float>{4, -4});
    CHECK(after_penalty({4, -4}, {}) == std::vector<float>{4, -4});
    CHECK(draw(queue, {4, 3}, params, {0, 0}) == 1);
    CHECK(draw(queue, {8, 3}, params, {0, 0}) == 0);  // 4 > 3: twice would have been 2
    CHECK(draw(queue, {4, 3}, {}, {0}) == 0);
    // The ring holds 64: token 0 is forgotten after 64 others.
    std::vector<int32_t> many(kRecentTokens + 1, 1);
    many[0] = 0;
    CHECK(draw(queue, {4, 3}, params, many) == 0);
    many.pop_back();
    CHECK(draw(queue, {4, 3}, params, many) == 0);
    CHECK(draw(queue, {4, 3, 2.5f}, params, many) == 2);
  });
}

TEST_CASE("the temperature shapes the distribution as its formula says") {
  const std::vector<float> logits = {1.0f, 0.0f, 2.0f, -1.0f, 0.5f};
  test::for_each_backend([&](Queue& queue) {
    for (const float temperature : {0.5f, 1.0f, 3.0f}) {
      CAPTURE(temperature);
      const int count = draw_count(20000);
      std::vector<int> counts(logits.size());
      for (const int32_t token : draws(queue, logits, {.temperature = temperature, .seed = 99}, count))
        ++counts[static_cast<size_t>(token)];
      double total = 0;
      for (const float logit : logits) total += std::exp(double{logit} / temperature);
      double chi_square = 0;
      for (size_t i = 0; i < logits.size(); ++i) {
        const double expected = count * std::exp(double{logits[i]} / temperature) / total;
        chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
      }
      CHECK(chi_square < 18.47);  // 4 degrees of freedom, 0.1%
    }
    CHECK(reachable(queue, logits, {.temperature = 1e-6f}, 500) == std::set<int32_t>{2});
    CHECK(reachable(queue, logits, {.temperature = 1e-45f}, 50) == std::set<int32_t>{2});
  });
}

TEST_CASE("the same seed and counters draw the same tokens, another seed others") {
  const std::vector<float> logits(50, 0.0f);
  test::for_each_backend([&](Queue& queue) {
    const auto sequence = [&](uint64_t seed) { return draws(queue, logits, {.temperature = 1, .seed = seed}, 64); };
    CHECK(sequence(5) == sequence(5));
    CHECK(sequence(5) != sequence(6));
    CHECK(sequence(5) != sequence(uint64_t{5} << 32));
  });
}

}  // namespace ocellus
