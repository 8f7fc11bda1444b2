// Answers that are generated some tokens at a time, as a server does it, and system prompts.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

#include "tests/support/loaded_engine.h"

namespace ocellus {
namespace {

using test::Answer;
using test::answer_of;
using test::board_limits;
using test::default_params;
using test::make_engine;
using test::open_session;

Status ask(Session& session) { return test::add_turn(session, "<image>What is on the left?", {"images/115.png"}); }

// Chosen almost at random, so that characters are cut into tokens, too.
ocellus_generate_params wild_params(uint64_t seed, float temperature, int32_t tokens) {
  ocellus_generate_params params = default_params(tokens);
  params.temperature = temperature;
  params.seed = seed;
  params.ignore_end = 1;
  return params;
}

std::string answer_in_slices(Session& session, const ocellus_generate_params& params, int32_t slice) {
  std::string text;
  for (int32_t done = 0; done < params.max_tokens; done += slice) {
    ocellus_generate_params part = params;
    part.max_tokens = std::min(slice, params.max_tokens - done);
    const Answer answer = answer_of(session, part);
    REQUIRE(answer.status.ok());
    CHECK(answer.stats.stop == OCELLUS_STOP_MAX_TOKENS);
    text += answer.text;
  }
  return text;
}

// Characters of several bytes that are not what stands for damaged ones.
int count_long_characters(const std::string& text) {
  int count = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    count += static_cast<unsigned char>(text[i]) >= 0xc0 && text.compare(i, 3, "\xef\xbf\xbd") != 0 ? 1 : 0;
  }
  return count;
}

}  // namespace

TEST_CASE("the random choices of an answer in slices go on where they were" * doctest::test_suite("long")) {
  const std::unique_ptr<Engine> engine = make_engine(board_limits(1, 300));
  Session& session = open_session(*engine);
  constexpr int kSeeds = 24;
  int equal = 0;
  std::set<std::string> answers;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const ocellus_generate_params params = wild_params(seed, 3.0f, 4);
    session.reset();
    REQUIRE(ask(session).ok());
    const std::string whole = answer_of(session, params).text;
    session.reset();
    REQUIRE(ask(session).ok());
    equal += answer_in_slices(session, params, 3) == whole ? 1 : 0;
    answers.insert(whole);
  }
  CHECK(answers.size() >= kSeeds / 2);
  // The token before the cut is read as a row of a prompt, which rounds otherwise, on a GPU by f16's steps: where a
  // thousand tokens are nearly as likely, that changes a choice now and then. If the choices began again, the token
  // behind the cut would hardly ever be the same.
  MESSAGE("equal behind the cut: " << equal << " of " << kSeeds);
  CHECK(equal >= kSeeds / 3);
}

TEST_CASE("a character whose bytes come in several slices is delivered whole") {
  const std::unique_ptr<Engine> engine = make_engine(board_limits(1, 300));
  Session& session = open_session(*engine);
  int characters = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    session.reset();
    REQUIRE(ask(session).ok());
    characters += count_long_characters(answer_in_slices(session, wild_params(seed, 8.0f, 96), 1));
  }
  CHECK(characters > 0);
}

TEST_CASE("what is left of a cut character does not come with the next turn's answer") {
  const std::unique_ptr<Engine> engine = make_engine(board_limits(1, 300));
  Session& session = open_session(*engine);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    session.reset();
    REQUIRE(ask(session).ok());
    (void)answer_of(session, wild_params(seed, 8.0f, 3));
    REQUIRE(test::add_turn(session, "What is on the right?", {}).ok());
    const std::string text = answer_of(session, default_params(8)).text;
    CHECK(text.find("\xef\xbf\xbd") == std::string::npos);
  }
}

TEST_CASE("a system prompt stands where the chat template has it, once and before everything else") {
  const std::unique_ptr<Engine> engine = make_engine(board_limits(1, 200));
  Session& session = open_session(*engine);
  REQUIRE(session.add_system("Be brief.").ok());
  CHECK(session.add_system("And polite.").code() == Code::kBadArgument);
  REQUIRE(session.begin_turn().ok());
  REQUIRE(session.add_text("What is blue?", false).ok());
  REQUIRE(session.end_turn().ok());
  const Answer told = answer_of(session, default_params(4));
  CHECK(session.add_system("Be brief.").code() == Code::kBadArgument);

  const TurnText& texts = turn_text(engine->model().chat_template());
  REQUIRE(std::string(texts.system_open) != "");
  session.reset();
  for (const char* piece : {texts.system_open, "Be brief.", texts.system_close, texts.user_after_system,
                            "What is blue?", texts.user_close}) {
    REQUIRE(session.add_text(piece, true).ok());
  }
  const Answer raw = answer_of(session, default_params(4));
  CHECK(told.stats.prompt_tokens == raw.stats.prompt_tokens);
  CHECK(told.stats.logits_hash == raw.stats.logits_hash);
  CHECK(told.text == raw.text);

  // A reset forgets it.
  session.reset();
  REQUIRE(test::add_turn(session, "What is blue?", {}).ok());
  CHECK(answer_of(session, default_params(4)).stats.prompt_tokens < raw.stats.prompt_tokens);
}

}  // namespace ocellus
