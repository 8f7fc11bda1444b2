// Answers that are generated some tokens at a time, as a server does it, and system prompts.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

#include "runtime/branches/measure/score.h"
#include "tests/support/cache_texts.h"
#include "tests/support/loaded_engine.h"
#include "tests/support/packed_sessions.h"

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

struct Said {
  std::string text;
  uint64_t logits_hash = 0;  // the last token's
  int64_t kv_bytes = 0;
  bool operator==(const Said&) const = default;
};

/// `tokens` 0: in one go.
Said say(Session& session, const ocellus_generate_params& params, int32_t tokens = 0) {
  const int32_t slice = tokens == 0 ? params.max_tokens : tokens;
  Said said;
  for (int32_t done = 0; done < params.max_tokens; done += slice) {
    ocellus_generate_params part = params;
    part.max_tokens = std::min(slice, params.max_tokens - done);
    const Answer answer = answer_of(session, part);
    REQUIRE_MESSAGE(answer.status.ok(), last_failure().sentence);
    CHECK(answer.stats.stop == OCELLUS_STOP_MAX_TOKENS);
    CHECK((done == 0) == (answer.stats.prompt_tokens > 0));
    said = {said.text + answer.text, answer.stats.logits_hash, answer.stats.kv_bytes};
  }
  return said;
}

Said ask_and_say(Session& session, const ocellus_generate_params& params, int32_t slice = 0) {
  session.reset();
  REQUIRE(ask(session).ok());
  return say(session, params, slice);
}

struct Setting {
  const char* name;
  ocellus_limits limits;
};

std::vector<Setting> settings() {
  ocellus_limits calibrated = test::packed_limits(1, 300, 1);
  test::set_text(calibrated.cache.kv_scheme, "per-image:tau-low=0.1,tau-high=0.1");
  ocellus_limits kivi = test::packed_limits(1, 300, 2);
  test::set_text(kivi.cache.kv_scheme, "kivi:residual=8");
  ocellus_limits linked = board_limits(1, 300);
  linked.reuse = OCELLUS_REUSE_SPREAD;
  linked.reuse_rows = 8;
  ocellus_limits lean = board_limits(1, 300);
  lean.lean = 1;
  return {{"plain", board_limits(1, 300)},
          {"calibrated bits", calibrated},
          {"KIVI", kivi},
          {"linked", linked},
          {"lean", lean},
          {"H2O", test::evicting_limits(1, 300, "h2o", 0.4f)},
          {"StreamingLLM", test::evicting_limits(1, 300, "streaming-llm", 0.4f)},
          {"Elastic Cache", test::evicting_limits(1, 300, "elastic", 0.4f)}};
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

TEST_CASE("an answer in slices is that of one call, to the bit, whatever the cache does" *
          doctest::test_suite("long")) {
  for (const Setting& setting : settings()) {
    CAPTURE(setting.name);
    const std::unique_ptr<Engine> engine = make_engine(setting.limits);
    Session& session = open_session(*engine);
    std::set<std::string> answers;
    for (const float temperature : {0.0f, 3.0f}) {
      CAPTURE(temperature);
      ocellus_generate_params params = wild_params(7, temperature, 50);
      params.repetition_penalty = 1.2f;
      const Said whole = ask_and_say(session, params);
      for (const int32_t slice : {1, 7, 32}) {
        CAPTURE(slice);
        CHECK(ask_and_say(session, params, slice) == whole);
      }
      answers.insert(whole.text);
    }
    CHECK(answers.size() == 2);
  }
}

TEST_CASE("sessions that answer together in slices, one behind the other, say what they say in one go") {
  ocellus_limits limits = board_limits(1, 300);
  limits.max_sessions = 2;
  const std::unique_ptr<Engine> engine = make_engine(limits);
  const std::vector<Session*> sessions = {&open_session(*engine), &open_session(*engine)};
  constexpr int32_t kTokens = 24, kSlice = 4;
  const Said alone = ask_and_say(*sessions[0], wild_params(3, 2.0f, kTokens));
  const Said other = ask_and_say(*sessions[1], wild_params(3, 2.0f, kTokens - kSlice));

  // The first session's answer goes on while the second's begins.
  for (Session* session : sessions) session->reset();
  REQUIRE(ask(*sessions[0]).ok());
  std::vector<std::string> texts = {say(*sessions[0], wild_params(3, 2.0f, kSlice)).text, ""};
  REQUIRE(ask(*sessions[1]).ok());
  std::vector<Answer> answers;
  for (int32_t done = kSlice; done < kTokens; done += kSlice) {
    answers = test::batch_answers(sessions, wild_params(3, 2.0f, kSlice));
    for (size_t i = 0; i < 2; ++i) {
      REQUIRE(answers[i].status.ok());
      CHECK(answers[i].stats.generated_tokens == kSlice);
      texts[i] += answers[i].text;
    }
  }
  CHECK(texts[0] == alone.text);
  CHECK(texts[1] == other.text);
  if (engine->queue().on_cuda()) return;  // two rows have other bits there than one
  CHECK(answers[0].stats.logits_hash == alone.logits_hash);
  CHECK(answers[1].stats.logits_hash == other.logits_hash);
}

TEST_CASE("an answer that is scored in pieces has the probabilities of one call, to the bit") {
  const std::unique_ptr<Engine> engine = make_engine(board_limits(1, 300));
  Session& session = open_session(*engine);
  std::vector<TokenId> tokens(40);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<TokenId>(300 + 37 * i % 500);
  const auto score_pieces = [&](size_t piece) {
    session.reset();
    REQUIRE(ask(session).ok());
    std::vector<float> found(tokens.size());
    for (size_t done = 0; done < tokens.size(); done += piece) {
      const auto count = static_cast<int32_t>(std::min(piece, tokens.size() - done));
      ocellus_generate_stats stats;
      REQUIRE(score(session, {&tokens[done], count, &found[done]}, &stats).ok());
    }
    return found;
  };
  const std::vector<float> whole = score_pieces(tokens.size());
  for (const size_t piece : {size_t{1}, size_t{13}}) CHECK(score_pieces(piece) == whole);
}

TEST_CASE("an answer that was cut where the room ends is told so, and stays as it is") {
  const std::unique_ptr<Engine> engine = make_engine(board_limits(1, 40));
  Session& session = open_session(*engine);
  const Said full = [&] {
    REQUIRE(ask(session).ok());
    const Answer answer = answer_of(session, wild_params(1, 0.0f, 1000));
    CHECK(answer.stats.stop == OCELLUS_STOP_FULL);
    return Said{answer.text, answer.stats.logits_hash, answer.stats.kv_bytes};
  }();
  CHECK(answer_of(session, wild_params(1, 0.0f, 1)).status.code() == Code::kFull);
  session.reset();
  REQUIRE(ask(session).ok());
  Said sliced;
  for (Answer answer; answer.stats.stop != OCELLUS_STOP_FULL;) {
    answer = answer_of(session, wild_params(1, 0.0f, 3));
    if (answer.status.code() == Code::kFull) break;  // the slice before ended where the room does
    REQUIRE(answer.status.ok());
    sliced = {sliced.text + answer.text, answer.stats.logits_hash, answer.stats.kv_bytes};
  }
  CHECK(sliced == full);
}

TEST_CASE("a character whose bytes come in several slices is delivered whole") {
  const std::unique_ptr<Engine> engine = make_engine(board_limits(1, 300));
  Session& session = open_session(*engine);
  int characters = 0;
  // Which seeds write one depends on how the processor rounds.
  for (uint64_t seed = 1; seed <= 8 || (characters == 0 && seed <= 80); ++seed) {
    session.reset();
    REQUIRE(ask(session).ok());
    characters += count_long_characters(say(session, wild_params(seed, 8.0f, 96), 1).text);
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

TEST_CASE("a system prompt stands where the chat template has it, also a later one") {
  const std::unique_ptr<Engine> engine = make_engine(board_limits(1, 200));
  Session& session = open_session(*engine);
  REQUIRE(session.add_system("Be brief.").ok());
  REQUIRE(session.begin_turn().ok());
  REQUIRE(session.add_text("What is blue?", false).ok());
  REQUIRE(session.end_turn().ok());
  const Answer told = answer_of(session, default_params(4));
  CHECK(session.add_system("And polite.").ok());

  const PromptLayout& texts = engine->model().layout();
  session.reset();
  for (const char* piece : {texts.start, texts.system.before, "Be brief.", texts.system.after, texts.user.before,
                            "What is blue?", texts.user.after, texts.opens_answer}) {
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
