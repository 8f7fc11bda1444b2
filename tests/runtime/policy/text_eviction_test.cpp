// Eviction where no images are planned: text alone competes.
#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "runtime/engine/memory_plan.h"
#include "runtime/policy/row_rule.h"
#include "tests/support/cache_texts.h"
#include "tests/support/loaded_engine.h"
#include "tests/support/text_sessions.h"

namespace ocellus {
namespace {

using test::answer_of;
using test::board_limits;
using test::default_params;
using test::make_engine;
using test::open_session;
using test::score_of;
using test::words;

constexpr std::string_view kMethods[] = {"snapkv",
                                         "david",
                                         "h2o-prefill",
                                         "david-h2o",
                                         "sink-recent",
                                         "value-window",
                                         "elastic-prefill",
                                         "elastic-repo",
                                         "elastic-derope-prefill",
                                         "csp",
                                         "h2o",
                                         "streaming-llm",
                                         "elastic",
                                         "random"};

ocellus_limits text_limits(int32_t tokens, std::string_view evict, float keep) {
  ocellus_limits limits = board_limits(0, tokens);
  test::set_text(limits.cache.evict, evict);
  limits.cache.keep = keep;
  return limits;
}

}  // namespace

TEST_CASE("every rule leaves its share of a long text, and what follows reads that" * doctest::test_suite("long")) {
  const std::vector<TokenId> prompt = words(300, 1), answer = words(20, 2);
  const std::unique_ptr<Engine> exact = make_engine(board_limits(0, 400));
  Session& whole = open_session(*exact);
  test::add(whole, prompt);
  ocellus_generate_stats stats;
  const std::vector<float> expected = score_of(whole, answer, &stats);
  const int64_t slot_bytes = exact->shape().kv.slot_bytes();
  CHECK(stats.kv_bytes == (300 + 19) * slot_bytes);
  for (const std::string_view method : kMethods) {
    CAPTURE(method);
    const std::unique_ptr<Engine> engine = make_engine(text_limits(400, method, 0.25f));
    Session& session = open_session(*engine);
    test::add(session, prompt);
    const std::vector<float> values = score_of(session, answer, &stats);
    const AnswerRule answers = engine->shape().policy.facts.answers;
    // Elastic Cache: floor(slots - tokens / 4) stays below 1.
    const int64_t slots = !answers.drops_slots ? 75 + 19 : answers.grows ? (300 + 19) / 4 + 1 : 75;
    CHECK(stats.kv_bytes == slots * slot_bytes);
    CHECK(stats.kv_bytes_full == (300 + 19) * slot_bytes);
    CHECK(session.next_position() == 300 + 19);
    CHECK(values[0] == expected[0]);  // the prompt was read with nothing dropped
    CHECK(values[5] != expected[5]);
    CHECK(answer_of(session, default_params(8)).status.ok());
    session.reset();
    CHECK(engine->memory().pools.used_bytes() == 0);
    test::add(session, prompt);
    CHECK(score_of(session, answer, &stats) == values);
  }
}

TEST_CASE("short pieces of text stay, and so does everything where all is kept") {
  const std::vector<TokenId> prompt = words(127, 3), answer = words(10, 4);
  const std::unique_ptr<Engine> exact = make_engine(board_limits(0, 400));
  Session& whole = open_session(*exact);
  test::add(whole, prompt);
  ocellus_generate_stats stats;
  const std::vector<float> expected = score_of(whole, answer, &stats);
  for (const float keep : {0.1f, 1.0f}) {
    ocellus_limits limits = text_limits(400, "snapkv", keep);
    limits.cache.kv_bits = 2;  // bits of pictures, of which there are none
    const std::unique_ptr<Engine> engine = make_engine(limits);
    Session& session = open_session(*engine);
    test::add(session, prompt);
    CHECK(score_of(session, answer, &stats) == expected);
    CHECK(stats.kv_bytes == stats.kv_bytes_full);
  }
}

TEST_CASE("the suffix that makes the model answer reads the evicted text and stays itself") {
  ocellus_limits limits = text_limits(600, "snapkv", 0.2f);
  limits.cache.compress_at = OCELLUS_COMPRESS_BEFORE_SUFFIX;
  const std::unique_ptr<Engine> engine = make_engine(limits);
  Session& session = open_session(*engine);
  REQUIRE(session.begin_turn().ok());
  test::add(session, words(300, 5));
  REQUIRE(session.end_turn().ok());
  const int64_t read = session.next_position();
  CHECK(read > 300);
  const int64_t suffix = engine->memory().chunk.row_count;
  CHECK(suffix > 0);
  CHECK(suffix < 10);
  ocellus_generate_stats stats;
  score_of(session, {300, 301}, &stats);
  CHECK(stats.kv_bytes == (read / 5 + suffix + 1) * engine->shape().kv.slot_bytes());
}

TEST_CASE("planned text always finds its pages, in whatever pieces it comes" * doctest::test_suite("long")) {
  constexpr int32_t kTokens = 1500;
  test::Random random(6);
  for (const float keep : {0.05f, 0.5f, 0.99f}) {
    ocellus_limits limits = text_limits(kTokens, "sink-recent", keep);
    limits.max_prompt_rows = 200;
    const std::unique_ptr<Engine> engine = make_engine(limits);
    Session& session = open_session(*engine);
    for (int round = 0; round < 3; ++round) {
      session.reset();
      test::fill_with_pieces(session, kTokens, random);
    }
  }
}

TEST_CASE("planning for evicted text costs a few pages more, and its parts say so") {
  ocellus_plan plain, evicted;
  REQUIRE(plan_memory(test::bundled_model(), board_limits(0, 1280), &plain).ok());
  REQUIRE(plan_memory(test::bundled_model(), text_limits(1280, "snapkv", 0.5f), &evicted).ok());
  const int64_t page = 16 * plain.kv_bytes_per_token;
  CHECK(evicted.kv_bytes_per_session - plain.kv_bytes_per_session == 10 * page);
}

}  // namespace ocellus
