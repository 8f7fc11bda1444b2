// Sampling whole batches: every backend chooses what brute force chooses, and moves its rows on alike.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/sampling/sample.h"
#include "tests/support/random.h"
#include "tests/support/sample_batch.h"
#include "tests/support/sample_reference.h"

namespace ocellus {
namespace {

using test::brute_force;
using test::hash_of;
using test::kInfinity;
using test::kNan;
using test::log_probability;
using test::random_logits;
using test::random_row;
using Batch = test::SampleBatch;

}  // namespace

TEST_CASE("every backend chooses what brute force chooses, whatever the logits and parameters") {
  struct Size {
    int64_t rows, vocabulary;
    int rounds;
  };
  test::for_each_backend([](Queue& queue) {
    test::Random random(11);
    int unsure = 0, rows = 0;
    for (const Size& size : {Size{32, 1, 1}, Size{64, 2, 2}, Size{64, 33, 8}, Size{128, 1000, 3}, Size{512, 257, 1},
                             Size{24, 5000, 3}, Size{5, 49152, 4}, Size{3, 152064, 6}}) {
      const int rounds = test::is_small_run() ? 1 : size.rounds;
      for (int round = 0; round < rounds; ++round) {
        CAPTURE(size.vocabulary);
        CAPTURE(round);
        Batch batch(queue, size.rows, size.vocabulary, random.integer(0, 5));
        std::vector<std::vector<float>> logits;
        for (int64_t b = 0; b < size.rows; ++b) {
          logits.push_back(random_logits(random, size.vocabulary));
          batch.set_logits(b, logits.back());
          batch.step(b) = random_row(random, size.vocabulary);
        }
        const std::vector<StepRow> before(batch.steps.data(), batch.steps.data() + size.rows);
        batch.run();
        for (int64_t b = 0; b < size.rows; ++b) {
          CAPTURE(b);
          const auto& row = before[static_cast<size_t>(b)];
          const auto& given = logits[static_cast<size_t>(b)];
          const test::SampledChoice expected = brute_force(given, row);
          const StepResult& result = batch.result(row.step, b);
          if (expected.sure) REQUIRE(result.token == expected.token);
          REQUIRE(result.logits_hash == hash_of(given));
          unsure += !expected.sure;
          ++rows;
        }
      }
    }
    CHECK(unsure * 100 < rows);
  });
}

TEST_CASE("the choice is the same on the CPU and on CUDA, bit by bit the same twice") {
  Queue* const cuda = test::cuda_queue();
  if (cuda == nullptr) return;
  test::TestQueue cpu(2);
  test::Random random(12);
  const int rounds = test::is_small_run() ? 2 : 12;
  for (int round = 0; round < rounds; ++round) {
    const int64_t rows = random.integer(1, 300), vocabulary = random.integer(1, 3000);
    Batch first(*cuda, rows, vocabulary), second(*cuda, rows, vocabulary), other(*cpu, rows, vocabulary);
    for (int64_t b = 0; b < rows; ++b) {
      const std::vector<float> logits = random_logits(random, vocabulary);
      const StepRow row = random_row(random, vocabulary);
      for (Batch* batch : {&first, &second, &other}) {
        batch->set_logits(b, logits);
        batch->step(b) = row;
      }
    }
    const std::vector<StepRow> before(first.steps.data(), first.steps.data() + rows);
    for (Batch* batch : {&first, &second, &other}) batch->run();
    for (int64_t b = 0; b < rows; ++b) {
      CAPTURE(round);
      CAPTURE(b);
      const int32_t step = before[static_cast<size_t>(b)].step;
      REQUIRE(std::memcmp(&first.step(b), &second.step(b), sizeof(StepRow)) == 0);
      REQUIRE(std::memcmp(&first.result(step, b), &second.result(step, b), sizeof(StepResult)) == 0);
      REQUIRE(first.result(step, b).token == other.result(step, b).token);
      REQUIRE(first.result(step, b).logits_hash == other.result(step, b).logits_hash);
    }
  }
}

TEST_CASE("rows move on: results in a ring, recent tokens, positions, slots across the border of a tile") {
  test::for_each_backend([](Queue& queue) {
    for (const bool advance : {true, false}) {
      CAPTURE(advance);
      Batch batch(queue, 3, 40, 2);
      if (advance) batch.tiles.resize(3 * 4);
      for (size_t i = 0; i < batch.tiles.size(); ++i) batch.tiles[i].capacity = i % 4 == 1 ? 2 : 3;
      batch.step(1).active = 0;
      batch.step(2).sampler = {.temperature = 1, .seed = 3};
      batch.step(2).recent.count = kRecentTokens - 2;
      for (const int b : {0, 2}) {
        batch.step(b).position = 100 + b;
        batch.step(b).new_slot = 1;
      }
      std::array<unsigned char, sizeof(StepRow)> sleeping;
      std::memcpy(sleeping.data(), &batch.step(1), sizeof(StepRow));
      test::Random random(4);
      constexpr int kSteps = 6;
      std::vector<int32_t> tokens[3];
      for (int step = 0; step < kSteps; ++step) {
        for (int64_t b = 0; b < 3; ++b) batch.set_logits(b, random.normals(40));
        batch.run();
        for (const int b : {0, 2}) {
          const StepRow& row = batch.step(b);
          const int32_t token = batch.result(step, b).token;
          tokens[b].push_back(token);
          REQUIRE(row.token == token);
          REQUIRE(row.step == step + 1);
          REQUIRE(row.drawn_count == static_cast<uint64_t>(step) + 1);
          const int32_t first = b == 2 ? kRecentTokens - 2 : 0;
          REQUIRE(row.recent.count == first + step + 1);
          REQUIRE(row.recent.tokens[(first + step) % kRecentTokens] == token);
          REQUIRE(row.position == 100 + b + (advance ? step + 1 : 0));
          // Slots of 3 in tile 0, from slot 1; 2 in tile 1; 3 in tile 2.
          constexpr std::array<int32_t, 2> kPlaces[] = {{0, 2}, {1, 0}, {1, 1}, {2, 0}, {2, 1}, {2, 2}};
          const std::array<int32_t, 2> place = {row.new_tile, row.new_slot};
          REQUIRE(place == (advance ? kPlaces[step] : std::array<int32_t, 2>{0, 1}));
        }
      }
      for (int step = kSteps - kResultSteps; step < kSteps; ++step)
        for (const int b : {0, 2}) CHECK(batch.result(step, b).token == tokens[b][static_cast<size_t>(step)]);
      CHECK(std::memcmp(sleeping.data(), &batch.step(1), sizeof(StepRow)) == 0);
      CHECK(batch.results.untouched_count() == kResultSteps);  // results of the inactive row
    }
  });
}

TEST_CASE("a row without a number reads token 0 next; too little scratch memory is refused") {
  test::for_each_backend([](Queue& queue) {
    Batch batch(queue, 1, 3);
    batch.step(0).token = 9;
    batch.set_logits(0, {kNan, kNan, kNan});
    batch.run();
    CHECK(batch.result(0, 0).token == kNoTokenSampled);
    CHECK(batch.step(0).token == 0);
    CHECK(batch.step(0).step == 1);

    SampleTokensArgs args = batch.args();
    --args.scratch.cols;
    sample_tokens(args, queue);
    CHECK(queue.status().code() == Code::kInternal);
    queue.clear();
    CHECK(batch.step(0).step == 1);
  });
}

TEST_CASE("scratch memory for many rows serves fewer") {
  for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    DeviceTraits traits(8);
    traits.kind = kind;
    for (const int64_t vocabulary : {1, 1024, 49152, 152064, 3000000})
      for (int64_t rows = 1; rows < 700; ++rows) {
        const int64_t bytes = sample_scratch_bytes(rows, vocabulary, traits);
        REQUIRE(bytes >= sample_scratch_bytes(rows - 1, vocabulary, traits));
        if (traits.is_cuda()) {
          const int64_t parts = rows * sample_parts(rows, vocabulary);
          REQUIRE(bytes >= parts * static_cast<int64_t>(sizeof(SamplePart)));
        }
      }
  }
}

TEST_CASE("a recorded step samples on its own, time after time") {
  Queue* const cuda = test::cuda_queue();
  if (cuda == nullptr) return;
  test::TestQueue cpu(1);
  Batch recorded(*cuda, 4, 3000), plain(*cpu, 4, 3000);
  test::Random random(5);
  for (int64_t b = 0; b < 4; ++b) {
    const std::vector<float> logits = random.normals(3000, 3.0f);
    for (Batch* batch : {&recorded, &plain}) {
      batch->set_logits(b, logits);
      batch->step(b).sampler = {.temperature = b == 0 ? 0.0f : 0.5f * static_cast<float>(b), .seed = 8};
    }
  }
  CudaGraph graph;
  REQUIRE(cuda->begin_capture().ok());
  sample_tokens(recorded.args(), *cuda);
  REQUIRE(cuda->end_capture(&graph).ok());
  for (int step = 0; step < 3; ++step) {
    cuda->launch(graph);
    REQUIRE(cuda->finish().ok());
    plain.run();
    for (int64_t b = 0; b < 4; ++b) CHECK(recorded.result(step, b).token == plain.result(step, b).token);
  }
}

TEST_CASE("forced rows read what they are told and hear its probability, whatever their sampler says") {
  test::for_each_backend([](Queue& queue) {
    test::Random random(21);
    double worst = 0;
    for (const auto& [rows, vocabulary] : {std::pair<int64_t, int64_t>{16, 1}, {64, 33}, {300, 257}, {7, 49152}}) {
      Batch batch(queue, rows, vocabulary, random.integer(0, 5));
      std::vector<std::vector<float>> logits;
      for (int64_t b = 0; b < rows; ++b) {
        logits.push_back(random_logits(random, vocabulary));
        batch.set_logits(b, logits.back());
        batch.step(b) = random_row(random, vocabulary);
        batch.step(b).active = random.integer(0, 9) != 0;
        if (b % 3 != 1) batch.force(b, batch.step(b).step, static_cast<int32_t>(random.integer(0, vocabulary - 1)));
      }
      const std::vector<StepRow> before(batch.steps.data(), batch.steps.data() + rows);
      const int64_t written = batch.results.untouched_count();
      batch.run();
      int64_t active = 0;
      for (int64_t b = 0; b < rows; ++b) {
        CAPTURE(vocabulary);
        CAPTURE(b);
        const StepRow& old = before[static_cast<size_t>(b)];
        const StepRow& row = batch.step(b);
        active += old.active;
        if (old.active == 0) REQUIRE(std::memcmp(&old, &row, sizeof row) == 0);
        if (old.active == 0) continue;
        const auto& given = logits[static_cast<size_t>(b)];
        const StepResult& result = batch.result(old.step, b);
        REQUIRE(result.logits_hash == hash_of(given));
        REQUIRE(row.step == old.step + 1);
        REQUIRE(row.drawn_count == old.drawn_count + 1);
        if (old.forced == 0) {
          REQUIRE(result.log_probability == 0);
          REQUIRE(row.token == std::max(result.token, 0));
          continue;
        }
        const int32_t token = batch.forced.at(old.step % kResultSteps, b);
        StepRow greedy = old;
        greedy.sampler = {};
        REQUIRE(result.token == brute_force(given, greedy).token);
        REQUIRE(row.token == token);
        REQUIRE(row.recent.tokens[old.recent.count % kRecentTokens] == token);
        const std::vector<float> left = batch.get_logits(b);
        REQUIRE(std::memcmp(left.data(), given.data(), given.size() * sizeof(float)) == 0);  // nothing is penalised
        if (result.token == kNoTokenSampled) continue;
        const double expected = log_probability(given, token);
        if (std::isinf(expected)) REQUIRE(double{result.log_probability} == expected);
        if (!std::isinf(expected))
          worst = std::max(worst, std::abs(result.log_probability - expected) / std::max(1.0, std::abs(expected)));
      }
      CHECK(batch.results.untouched_count() == written - active);
    }
    MESSAGE("largest error of a log-probability: " << worst);
    CHECK(worst < 1e-7);
  });
}

TEST_CASE("log-probabilities of infinite logits and of what is no number") {
  test::for_each_backend([](Queue& queue) {
    struct Case {
      std::vector<float> logits;
      int32_t token;
      float expected;
    };
    for (const Case& c : {Case{{1, kInfinity, 2}, 1, 0.0f},
                          {{1, kInfinity, 2}, 0, -kInfinity},
                          {{1, kInfinity, kNan}, 2, -kInfinity},
                          {{-kInfinity, -kInfinity, kNan}, 1, 0.0f},
                          {{0, -kInfinity, kNan}, 0, 0.0f},
                          {{0, -kInfinity, kNan}, 1, -kInfinity},
                          {{0, -kInfinity, kNan}, 2, -kInfinity},
                          {{-0.0f, 0.0f, kNan}, 0, std::log(0.5f)},
                          {{3e38f, -3e38f, 0}, 0, 0.0f}}) {
      CAPTURE(c.token);
      Batch batch(queue, 1, 3);
      batch.set_logits(0, c.logits);
      batch.force(0, 0, c.token);
      batch.run();
      CHECK(batch.result(0, 0).log_probability == c.expected);
      CHECK(batch.step(0).token == c.token);
    }
    Batch batch(queue, 1, 3);
    batch.set_logits(0, {kNan, kNan, kNan});
    batch.force(0, 0, 2);
    batch.run();
    CHECK(batch.result(0, 0).token == kNoTokenSampled);
    CHECK(batch.step(0).token == 2);
  });
}

TEST_CASE("a recorded step takes the tokens that the host writes between steps, and gives the same bits twice") {
  Queue* const cuda = test::cuda_queue();
  if (cuda == nullptr) return;
  constexpr int64_t kVocabulary = 5000;
  Batch batch(*cuda, 2, kVocabulary);
  test::Random random(22);
  for (int64_t b = 0; b < 2; ++b) batch.set_logits(b, random.normals(kVocabulary, 4.0f));
  CudaGraph graph;
  REQUIRE(cuda->begin_capture().ok());
  sample_tokens(batch.args(), *cuda);
  REQUIRE(cuda->end_capture(&graph).ok());
  for (int step = 0; step < 3 * kResultSteps; ++step) {
    const auto token = static_cast<int32_t>(random.integer(0, kVocabulary - 1));
    batch.force(0, step, token);
    batch.force(1, step, token);
    cuda->launch(graph);
    REQUIRE(cuda->finish().ok());
    for (int64_t b = 0; b < 2; ++b) {
      CHECK(batch.step(b).token == token);
      const double expected = log_probability(batch.get_logits(b), token);
      CHECK(batch.result(step, b).log_probability == doctest::Approx(expected).epsilon(1e-6));
    }
  }
}

}  // namespace ocellus
