// Answers that are generated some tokens at a time, as a server does it, and system prompts.
#include <doctest/doctest.h>

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

constexpr int kTokens = 96;

Status ask(Session& session) { return test::add_turn(session, "<image>What is on the left?", {"images/115.png"}); }

// Chosen almost at random, so that characters are cut into tokens, too.
ocellus_generate_params wild_params(uint64_t seed, int32_t tokens) {
  ocellus_generate_params params = default_params(tokens);
  params.temperature = 8.0f;
  params.repetition_penalty = 1.2f;
  params.seed = seed;
  params.ignore_end = 1;
  return params;
}

}  // namespace

TEST_CASE("an answer in slices is the answer in one go, to the last byte of a character") {
  const std::unique_ptr<Engine> engine = make_engine(board_limits(1, 300));
  Session& session = open_session(*engine);
  int joined_characters = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    session.reset();
    REQUIRE(ask(session).ok());
    const std::string whole = answer_of(session, wild_params(seed, kTokens)).text;
    for (const char c : whole) joined_characters += static_cast<unsigned char>(c) >= 0xc0 ? 1 : 0;
    for (const int slice : {1, 7, 16}) {
      CAPTURE(seed);
      CAPTURE(slice);
      session.reset();
      REQUIRE(ask(session).ok());
      std::string text;
      for (int done = 0; done < kTokens; done += slice) {
        const Answer part = answer_of(session, wild_params(seed, std::min(slice, kTokens - done)));
        REQUIRE(part.status.ok());
        CHECK(part.stats.stop == OCELLUS_STOP_MAX_TOKENS);
        text += part.text;
      }
      CHECK(text == whole);
    }
  }
  CHECK(joined_characters > 0);
}

TEST_CASE("what is left of a cut character does not come with the next turn's answer") {
  const std::unique_ptr<Engine> engine = make_engine(board_limits(1, 300));
  Session& session = open_session(*engine);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    session.reset();
    REQUIRE(ask(session).ok());
    (void)answer_of(session, wild_params(seed, 3));
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
