// A batch whose answers end one by one: its steps become smaller, and the answers that go on do not notice.
#include <doctest/doctest.h>

#include <array>
#include <cstring>

#include "tests/support/packed_sessions.h"

namespace ocellus {
namespace {

constexpr std::array kTokens = {3, 40, 11, 1, 26, 7};
constexpr auto kSessions = static_cast<int32_t>(kTokens.size());

struct TracedEngine {
  explicit TracedEngine(ocellus_limits limits) {
    limits.max_sessions = kSessions;
    ocellus_engine_config config;
    ocellus_engine_config_init(&config);
    config.limits = limits;
    config.trace = [](void* user, const char* name, int64_t, int64_t) {
      if (std::strcmp(name, "give up rows") == 0) ++*static_cast<int32_t*>(user);
    };
    config.trace_user = &shrinkings;
    REQUIRE_MESSAGE(Engine::create(test::any_model(), config, &engine).ok(), last_failure().sentence);
    for (int32_t i = 0; i < kSessions; ++i) sessions.push_back(&test::open_session(*engine));
  }

  ocellus_generate_params ask(size_t i, test::Answer* answer) {
    sessions[i]->reset();
    test::add_question(*sessions[i], test::golden(static_cast<int>(i)));
    ocellus_generate_params params = test::default_params(kTokens[i]);
    params.ignore_end = 1;
    params.on_text = test::collect_piece;
    params.user = answer;
    return params;
  }

  /// Sessions first, first + 1, ..., together.
  void answer(size_t first, int32_t count, test::Answer* answers) {
    std::vector<ocellus_generate_params> params;
    std::vector<ocellus_generate_stats> stats(static_cast<size_t>(count));
    for (size_t i = 0; i < stats.size(); ++i) params.push_back(ask(first + i, &answers[i]));
    const Status status = generate(&sessions[first], params.data(), stats.data(), count);
    REQUIRE_MESSAGE(status.ok(), last_failure().sentence);
    for (size_t i = 0; i < stats.size(); ++i) answers[i].stats = stats[i];
  }

  int32_t shrinkings = 0;
  std::unique_ptr<Engine> engine;
  std::vector<Session*> sessions;
};

void check_batch(ocellus_limits limits, bool batch_invariant = true) {
  limits.batch_invariant = batch_invariant ? 1 : 0;
  TracedEngine traced(limits);
  std::vector<test::Answer> together(kTokens.size());
  traced.answer(0, kSessions, together.data());
  // On the CPU whenever an answer ends, on a GPU at 4, 2 and 1 of the 8 rows.
  const bool on_cuda = traced.engine->queue().on_cuda();
  CHECK(traced.shrinkings == (on_cuda ? 3 : kSessions - 1));
  for (size_t i = 0; i < kTokens.size(); ++i) {
    CAPTURE(i);
    test::Answer alone;
    traced.answer(i, 1, &alone);
    CHECK(together[i].stats.generated_tokens == kTokens[i]);
    CHECK(together[i].text == alone.text);
    if (!on_cuda || limits.batch_invariant != 0) CHECK(together[i].stats.logits_hash == alone.stats.logits_hash);
    // What the batch left in the cache is what the next turn reads.
    test::add_question(*traced.sessions[i], test::golden(static_cast<int>(i)));
    CHECK(test::answer_of(*traced.sessions[i], test::default_params(4)).status.ok());
  }
}

TEST_CASE("answers that end give up their rows, and those that go on keep their words") {
  check_batch(test::board_limits(2, 200));
  if (cuda_device_count() > 0) check_batch(test::board_limits(2, 200), false);
}

TEST_CASE("rows are given up while slots are evicted") {
  for (const std::string_view method : {"streaming-llm", "elastic"}) {
    CAPTURE(method);
    check_batch(test::evicting_limits(2, 200, method, 0.4f));
  }
}

TEST_CASE("rows are given up while text is packed by KIVI") {
  ocellus_limits limits = test::packed_limits(2, 200, 4);
  test::set_text(limits.cache.kv_scheme, "kivi:residual=8");
  check_batch(limits);
}

}  // namespace
}  // namespace ocellus
