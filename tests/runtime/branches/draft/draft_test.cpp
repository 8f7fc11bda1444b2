// Drafts: guesses of what an answer goes on with change its speed and nothing else.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "runtime/engine/memory_plan.h"
#include "tests/support/family_goldens.h"
#include "tests/support/loaded_engine.h"
#include "tests/support/small_run.h"

namespace ocellus {
namespace {

using test::Answer;
using test::golden;
using test::known_board_limits;
using test::open_session;

constexpr std::array kKinds = {OCELLUS_DRAFT_AUTO, OCELLUS_DRAFT_LAST, OCELLUS_DRAFT_LOOKUP, OCELLUS_DRAFT_OFF};

ocellus_limits draft_limits(int32_t rows) {
  ocellus_limits limits = known_board_limits(1, 200);
  limits.draft_rows = rows;
  limits.batch_invariant = 1;  // as drafts are: those without give the same answers
  return limits;
}

ocellus_generate_params params_of(ocellus_draft kind, float temperature = 0, int32_t max_tokens = 60) {
  ocellus_generate_params params = test::default_params(max_tokens);
  params.draft = kind;
  params.temperature = temperature;
  params.repetition_penalty = temperature > 0 ? 1.1f : 1.0f;
  params.seed = 7;
  return params;
}

Answer ask(Session& session, int id, const ocellus_generate_params& params) {
  session.reset();
  test::add_question(session, golden(id));
  return test::answer_of(session, params);
}

TEST_CASE("answers with drafts are those without, bit by bit, greedy or sampled, whatever was said before") {
  const auto plain_engine = test::make_engine(draft_limits(0)), engine = test::make_engine(draft_limits(7));
  Session& plain = open_session(*plain_engine);
  Session& session = open_session(*engine);
  int64_t accepted = 0;
  uint64_t number = 0;
  for (const float temperature : {0.0f, 0.8f, 2.0f})
    for (const ocellus_draft kind : kKinds)
      for (const int id : {0, 0, 5, 0, 2, 3, 5, 5}) {
        if (test::is_slow_run() && ++number % 3 != 1) continue;
        CAPTURE(temperature);
        CAPTURE(id);
        const Answer answer = ask(session, id, params_of(kind, temperature));
        test::check_equal(answer, ask(plain, id, params_of(kind, temperature)));
        accepted += answer.stats.accepted_tokens;
        if (kind == OCELLUS_DRAFT_OFF) CHECK(answer.stats.drafted_tokens == 0);
      }
  CHECK(accepted > (test::is_slow_run() ? 20 : 100));
}

TEST_CASE("an answer that was given before takes as many steps as its rows need") {
  for (const int32_t rows : {2, 4, 7, 16}) {
    const auto engine = test::make_engine(draft_limits(rows));
    const auto most = static_cast<int32_t>(engine->shape().guessing_rows);
    Session& session = open_session(*engine);
    const Answer first = ask(session, 0, params_of(OCELLUS_DRAFT_LAST));
    const Answer again = ask(session, 0, params_of(OCELLUS_DRAFT_LAST));
    test::check_equal(again, first);
    // The first token is the prompt's, and an end takes a step, too, but is no token of the answer.
    const int32_t ends = first.stats.stop == OCELLUS_STOP_END_TOKEN ? 1 : 0;
    const int32_t steps = first.stats.generated_tokens - 1 + ends, together = std::min(rows, most);
    CHECK(first.stats.decode_steps == steps);
    CHECK(again.stats.decode_steps == (steps + together - 1) / together);
    CHECK(again.stats.accepted_tokens == again.stats.drafted_tokens);
  }
}

TEST_CASE("a draft of another question's answer is not tried") {
  const auto engine = test::make_engine(draft_limits(7));
  Session& session = open_session(*engine);
  (void)ask(session, 0, params_of(OCELLUS_DRAFT_LAST));
  CHECK(ask(session, 6, params_of(OCELLUS_DRAFT_LAST)).stats.drafted_tokens == 0);
}

TEST_CASE("answers of a batch with drafts are those that each has alone") {
  ocellus_limits limits = draft_limits(7);
  const auto plain_engine = test::make_engine(draft_limits(0));
  Session& plain = open_session(*plain_engine);
  limits.max_sessions = 40;  // steps of more than kMostRowsAlike rows are planned, too
  const auto engine = test::make_engine(limits);
  const std::vector<Session*> sessions = {&open_session(*engine), &open_session(*engine), &open_session(*engine)};
  constexpr std::array kIds = {0, 5, 3};
  int64_t accepted = 0;
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < kIds.size(); ++i) {
      sessions[i]->reset();
      test::add_question(*sessions[i], golden(kIds[i]));
    }
    const std::vector<Answer> answers = test::batch_answers(sessions, params_of(OCELLUS_DRAFT_LAST, 0.5f));
    for (size_t i = 0; i < kIds.size(); ++i) {
      test::check_equal(answers[i], ask(plain, kIds[i], params_of(OCELLUS_DRAFT_OFF, 0.5f)));
      accepted += answers[i].stats.accepted_tokens;
    }
  }
  CHECK(accepted > 60);
}

TEST_CASE("an answer in slices has drafts in each, and ends where its tokens or its room end") {
  std::vector<Answer> full;
  for (const int32_t rows : {0, 7}) {
    const auto engine = test::make_engine(draft_limits(rows));
    Session& session = open_session(*engine);
    ocellus_generate_params params = params_of(OCELLUS_DRAFT_LAST, 0, 1000);
    const Answer whole = ask(session, 0, params);
    for (const int32_t slice : {1, 3, 8}) {
      params.slice_tokens = slice;
      Answer part = ask(session, 0, params);
      std::string text = part.text;
      uint64_t hash = part.stats.logits_hash;
      while (part.stats.stop == OCELLUS_STOP_MAX_TOKENS) {
        CHECK(part.stats.generated_tokens == slice);
        part = test::answer_of(session, params);
        text += part.text;
        if (part.stats.logits_hash != 0) hash = part.stats.logits_hash;  // 0: there was no room for a step
      }
      CHECK(text == whole.text);
      CHECK(hash == whole.stats.logits_hash);
    }
    ocellus_generate_params endless = params_of(OCELLUS_DRAFT_LAST, 0, 1000);
    endless.ignore_end = 1;
    for (int round = 0; round < 2; ++round) {
      full.push_back(ask(session, 0, endless));
      CHECK(full.back().stats.stop == OCELLUS_STOP_FULL);
      test::check_equal(full.back(), full.front());
    }
  }
}

TEST_CASE("drafts leave what later rows see in layers with a window, and in a conversation that goes on") {
  Model model;
  const test::ModelPair pair = test::family_pair("gemma3");
  REQUIRE_MESSAGE(model.open(pair.model.c_str(), pair.mmproj.c_str()).ok(), last_failure().sentence);
  std::vector<Answer> answers[2];
  int64_t accepted = 0;
  for (const int32_t rows : {0, 7}) {
    ocellus_limits limits = draft_limits(rows);
    limits.max_text_tokens = 400;
    const auto engine = test::make_engine(model, limits);
    Session& session = open_session(*engine);
    ocellus_generate_params params = params_of(OCELLUS_DRAFT_AUTO, 0.2f, 70);
    params.ignore_end = 1;
    for (const ocellus_draft kind :
         {OCELLUS_DRAFT_LAST, OCELLUS_DRAFT_LAST, OCELLUS_DRAFT_AUTO, OCELLUS_DRAFT_LOOKUP, OCELLUS_DRAFT_LOOKUP}) {
      params.draft = kind;
      if (kind != OCELLUS_DRAFT_LOOKUP) session.reset();
      REQUIRE(test::add_turn(session, "the same words, the same words", {}).ok());
      answers[rows == 0 ? 0 : 1].push_back(test::answer_of(session, params));
      accepted += answers[rows == 0 ? 0 : 1].back().stats.accepted_tokens;
    }
  }
  for (size_t i = 0; i < answers[0].size(); ++i) test::check_equal(answers[0][i], answers[1][i]);
  CHECK(accepted > 60);
}

TEST_CASE("limits and parameters of drafts that cannot be are refused in a sentence") {
  for (const int32_t rows : {-1, 17}) {
    ocellus_plan plan;
    CHECK(plan_memory(test::any_model(), draft_limits(rows), &plan).code() == Code::kBadArgument);
  }
  for (const char* const method : {"elastic", "streaming-llm"}) {
    ocellus_limits limits = draft_limits(7);
    std::snprintf(limits.cache.evict, sizeof limits.cache.evict, "%s", method);
    limits.cache.keep = 0.5f;
    ocellus_plan plan;
    CHECK(plan_memory(test::any_model(), limits, &plan).code() == Code::kBadArgument);
    CHECK_MESSAGE(std::string(last_failure().sentence).find("(draft_rows)") != std::string::npos,
                  last_failure().sentence);
  }
  const auto engine = test::make_engine(draft_limits(7));
  Session& session = open_session(*engine);
  for (const int32_t draft : {-1, 4})
    CHECK(ask(session, 0, params_of(static_cast<ocellus_draft>(draft))).status.code() == Code::kBadArgument);
}

}  // namespace
}  // namespace ocellus
