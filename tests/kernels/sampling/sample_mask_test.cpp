// Masks of tokens: a masked row samples as if the other tokens did not exist.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "kernels/sampling/sample.h"
#include "tests/support/random.h"
#include "tests/support/sample_batch.h"
#include "tests/support/sample_reference.h"

namespace ocellus {
namespace {

using test::kNan;
using Batch = test::SampleBatch;

/// Random masks: of one token, few, most, all, none.
std::set<int64_t> random_mask(test::Random& random, int64_t vocabulary) {
  const int64_t share = std::array<int64_t, 5>{0, 1, 50, 990, 1000}[random.bits() % 5];
  std::set<int64_t> allowed;
  for (int64_t token = 0; token < vocabulary; ++token)
    if (random.integer(0, 999) < share) allowed.insert(token);
  if (random.integer(0, 3) == 0) allowed = {random.integer(0, vocabulary - 1)};
  return allowed;
}

/// What is left of the logits.
std::vector<float> within(const std::set<int64_t>& allowed, std::vector<float> logits) {
  for (size_t i = 0; i < logits.size(); ++i)
    if (allowed.count(static_cast<int64_t>(i)) == 0) logits[i] = kNan;
  return logits;
}

}  // namespace

TEST_CASE("a masked row samples from its mask alone, whatever its parameters, and keeps the hash of all logits") {
  test::for_each_backend([](Queue& queue) {
    test::Random random(31);
    int unsure = 0, rows = 0;
    for (const auto& [size, vocabulary] : {std::pair<int64_t, int64_t>{40, 1},
                                           {64, 31},
                                           {64, 32},
                                           {64, 33},
                                           {100, 257},
                                           {60, 1000},
                                           {24, 5003},
                                           {4, 49152},
                                           {2, 152064},
                                           {1, 152065}}) {
      Batch batch(queue, size, vocabulary, random.integer(0, 5));
      std::vector<std::vector<float>> logits;
      std::vector<std::set<int64_t>> masks;
      for (int64_t b = 0; b < size; ++b) {
        logits.push_back(random_logits(random, vocabulary));
        masks.push_back(random_mask(random, vocabulary));
        batch.set_logits(b, logits.back());
        batch.step(b) = random_row(random, vocabulary);
        batch.mask(b, [&](int64_t token) { return masks.back().count(token) != 0; });
        batch.step(b).masked = b % 4 != 3 ? 1 : 0;
        if (b % 8 == 5) batch.force(b, batch.step(b).step, static_cast<int32_t>(random.integer(0, vocabulary - 1)));
      }
      const std::vector<StepRow> before(batch.steps.data(), batch.steps.data() + size);
      batch.run();
      for (int64_t b = 0; b < size; ++b) {
        CAPTURE(vocabulary);
        CAPTURE(b);
        StepRow row = before[static_cast<size_t>(b)];
        const auto& given = logits[static_cast<size_t>(b)];
        const StepResult& result = batch.result(row.step, b);
        REQUIRE(result.logits_hash == test::hash_of(given));
        if (row.forced != 0) {
          row.sampler = {};
          const std::vector<float> left = batch.get_logits(b);
          REQUIRE(std::memcmp(left.data(), given.data(), given.size() * sizeof(float)) == 0);
          REQUIRE(batch.step(b).token == batch.forced.at(row.step % kResultSteps, b));
        }
        const bool masks_apply = row.masked != 0 && row.forced == 0;
        const std::set<int64_t>& allowed = masks[static_cast<size_t>(b)];
        const auto expected = test::brute_force(masks_apply ? within(allowed, given) : given, row);
        if (expected.sure) REQUIRE(result.token == expected.token);
        if (masks_apply && result.token >= 0) REQUIRE(allowed.count(result.token) == 1);
        unsure += !expected.sure;
        ++rows;
      }
    }
    CHECK(unsure * 100 < rows);
  });
}

TEST_CASE("a mask without a token that is a number leaves nothing to sample, and infinities outside it do not count") {
  constexpr float kInfinity = test::kInfinity;
  struct Case {
    std::vector<float> logits;
    std::set<int64_t> allowed;
    int32_t token;
  };
  test::for_each_backend([](Queue& queue) {
    for (const float temperature : {0.0f, 1.0f})
      for (const Case& c : {Case{{1, 2, 3}, {}, kNoTokenSampled},
                            {{1, kNan, 3}, {1}, kNoTokenSampled},
                            {{1, kInfinity, -kInfinity}, {2}, 2},
                            {{kInfinity, -3e38f, kNan}, {1, 2}, 1}}) {
        Batch batch(queue, 1, 3);
        batch.set_logits(0, c.logits);
        batch.mask(0, [&](int64_t token) { return c.allowed.count(token) != 0; });
        batch.step(0).sampler.temperature = temperature;
        batch.run();
        CHECK(batch.result(0, 0).token == c.token);
        CHECK(batch.step(0).token == std::max(c.token, 0));
        CHECK(batch.result(0, 0).logits_hash == test::hash_of(c.logits));
      }
  });
}

TEST_CASE("log-probabilities of forced rows are those of all logits, masked or not") {
  test::for_each_backend([](Queue& queue) {
    const std::vector<float> logits = {0.5f, 2, -1, 1};
    for (const bool masked : {false, true}) {
      Batch batch(queue, 1, 4);
      batch.set_logits(0, logits);
      if (masked) batch.mask(0, [](int64_t token) { return token == 3; });
      batch.force(0, 0, 2);
      batch.run();
      CHECK(batch.result(0, 0).log_probability == doctest::Approx(test::log_probability(logits, 2)).epsilon(1e-7));
      CHECK(batch.result(0, 0).token == 1);
    }
  });
}

TEST_CASE("a recorded step reads the masks that the host writes between steps") {
  Queue* const cuda = test::cuda_queue();
  if (cuda == nullptr) return;
  constexpr int64_t kVocabulary = 20001;
  Batch batch(*cuda, 2, kVocabulary);
  test::Random random(32);
  batch.mask(0, [](int64_t) { return true; });
  batch.mask(1, [](int64_t) { return true; });
  CudaGraph graph;
  REQUIRE(cuda->begin_capture().ok());
  sample_tokens(batch.args(), *cuda);
  REQUIRE(cuda->end_capture(&graph).ok());
  for (int step = 0; step < 12; ++step) {
    int64_t only[2];
    for (int64_t b = 0; b < 2; ++b) {
      batch.set_logits(b, random.normals(kVocabulary, 4.0f));
      only[b] = random.integer(0, kVocabulary - 1);
      batch.mask(b, [&](int64_t token) { return token == only[b]; });
    }
    cuda->launch(graph);
    REQUIRE(cuda->finish().ok());
    for (int64_t b = 0; b < 2; ++b) CHECK(batch.result(step, b).token == only[b]);
  }
}

}  // namespace ocellus
