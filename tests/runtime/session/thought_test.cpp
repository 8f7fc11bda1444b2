// Thoughts of thinking models: how long they are, what is written around them, and who receives what.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/loaded_engine.h"
#include "tests/support/thinking_model.h"

namespace ocellus {
namespace {

using test::board_limits;
using test::make_engine;
using test::open_session;

struct Said {
  std::string thought, answer;
  ocellus_generate_stats stats = {};
  bool operator==(const Said& other) const {
    return thought == other.thought && answer == other.answer && stats.logits_hash == other.stats.logits_hash &&
           stats.generated_tokens == other.stats.generated_tokens &&
           stats.thought_tokens == other.stats.thought_tokens &&
           stats.thought_mark_tokens == other.stats.thought_mark_tokens;
  }
};

int take_answer(void* user, const char* text, int32_t bytes) {
  static_cast<Said*>(user)->answer.append(text, static_cast<size_t>(bytes));
  return 0;
}

int take_thought(void* user, const char* text, int32_t bytes) {
  Said& said = *static_cast<Said*>(user);
  CHECK(said.answer.empty());
  said.thought.append(text, static_cast<size_t>(bytes));
  return 0;
}

/// An answer has as many tokens as it may, whatever the model wants.
ocellus_generate_params params_for(int32_t thought, int32_t answer, Said* said) {
  ocellus_generate_params params = test::default_params(answer);
  params.max_thought_tokens = thought;
  params.ignore_end = 1;
  params.on_text = take_answer;
  params.on_thought = take_thought;
  params.user = said;
  params.thought_user = said;
  return params;
}

Status ask(Session& session) {
  session.reset();
  return test::add_turn(session, "<image>What is on the left?", {"images/115.png"});
}

Said say(Session& session, int32_t thought, int32_t answer, int32_t slice = 0) {
  Said said;
  ocellus_generate_params params = params_for(thought, answer, &said);
  REQUIRE_MESSAGE(ask(session).ok(), last_failure().sentence);
  params.slice_tokens = slice;
  Session* const one = &session;
  do {
    ocellus_generate_stats stats;
    REQUIRE_MESSAGE(generate(&one, &params, &stats, 1).ok(), last_failure().sentence);
    CHECK(stats.stop == OCELLUS_STOP_MAX_TOKENS);
    if (slice > 0) CHECK(stats.generated_tokens + stats.thought_tokens + stats.thought_mark_tokens <= slice);
    stats.generated_tokens += said.stats.generated_tokens;
    stats.thought_tokens += said.stats.thought_tokens;
    stats.thought_mark_tokens += said.stats.thought_mark_tokens;
    said.stats = stats;
    params.max_tokens = answer - stats.generated_tokens;
  } while (params.max_tokens > 0);
  return said;
}

/// What the same weights say, without a thought, after these tokens.
std::string continue_after(Session& session, const std::vector<TokenId>& tokens, int32_t count) {
  Said said;
  const ocellus_generate_params params = params_for(0, count, &said);
  REQUIRE_MESSAGE(session.add_tokens(tokens.data(), static_cast<int64_t>(tokens.size())).ok(), last_failure().sentence);
  Session* const one = &session;
  REQUIRE_MESSAGE(generate(&one, &params, &said.stats, 1).ok(), last_failure().sentence);
  return said.answer;
}

std::string trimmed(const std::string& text) {
  return text.substr(std::min(text.find_first_not_of(" \n"), text.size()));
}

struct Marks {
  explicit Marks(const Engine& engine)
      : begin(engine.tokenizer().find("<think>")),
        end(engine.tokenizer().find("</think>")),
        line(engine.tokenizer().find("\n")),
        gap(engine.tokenizer().find("\n\n")) {}
  TokenId begin, end, line, gap;
};

/// As deep as thinking_model.
std::unique_ptr<Engine> make_plain_engine() {
  return make_engine(test::is_slow_run() ? test::any_model() : test::bundled_model(), board_limits(1, 200));
}

}  // namespace

TEST_CASE("a thought of the maximum length is closed, and the answer follows as after that prompt") {
  const auto engine = make_engine(test::thinking_model(), board_limits(1, 200));
  const auto plain = make_plain_engine();
  Session& session = open_session(*engine);
  Session& other = open_session(*plain);
  const Marks marks(*engine);
  REQUIRE(marks.gap != kNoToken);
  Said said = say(session, 7, 9);
  CHECK(said.stats.thought_tokens == 7);
  CHECK(said.stats.thought_mark_tokens == 2 + 3);  // "<think>\n", "\n</think>\n\n"
  CHECK(said.stats.generated_tokens == 9);
  CHECK(said.stats.prompt_tokens > 64);
  // One token each: a prompt and steps round differently, and what follows an odd thought is often nearly a tie.
  said = say(session, 1, 1);
  REQUIRE(ask(other).ok());
  CHECK(said.thought == continue_after(other, {marks.begin, marks.line}, 1));
  CHECK(said.answer == trimmed(continue_after(other, {marks.line, marks.end, marks.gap}, 1)));
}

TEST_CASE("with 0 tokens a thought is closed at once, and the prompt is the one of Qwen's templates") {
  const auto engine = make_engine(test::thinking_model(), board_limits(1, 200));
  const auto plain = make_plain_engine();
  Session& session = open_session(*engine);
  Session& other = open_session(*plain);
  const Marks marks(*engine);
  Said said = say(session, 0, 12);
  CHECK(said.thought.empty());
  CHECK(said.stats.thought_tokens == 0);
  CHECK(said.stats.thought_mark_tokens == 4);
  CHECK(said.stats.generated_tokens == 12);
  said = say(session, 0, 1);
  REQUIRE(ask(other).ok());
  CHECK(said.answer == trimmed(continue_after(other, {marks.begin, marks.gap, marks.end, marks.gap}, 1)));
}

TEST_CASE("an answer with a thought in slices is that of one call, to the bit") {
  const auto engine = make_engine(test::thinking_model(), board_limits(1, 200));
  Session& session = open_session(*engine);
  for (const int32_t thought : {0, 1, 6}) {
    CAPTURE(thought);
    const Said whole = say(session, thought, 8);
    for (const int32_t slice : {1, 2, 3, 7}) {
      CAPTURE(slice);
      CHECK(say(session, thought, 8, slice) == whole);
    }
  }
}

TEST_CASE("sessions of a batch think as long as each of them may") {
  ocellus_limits limits = board_limits(1, 200);
  limits.max_sessions = 4;
  const auto engine = make_engine(test::thinking_model(), limits);
  constexpr int32_t kThoughts[] = {3, 0, 11, 3};
  std::vector<Session*> sessions;
  std::vector<Said> alone, together(4);
  for (const int32_t thought : kThoughts) {
    sessions.push_back(&open_session(*engine));
    alone.push_back(say(*sessions.back(), thought, 10));
  }
  ocellus_generate_params params[4];
  ocellus_generate_stats stats[4];
  for (size_t i = 0; i < 4; ++i) {
    REQUIRE(ask(*sessions[i]).ok());
    params[i] = params_for(kThoughts[i], 10, &together[i]);
  }
  REQUIRE_MESSAGE(generate(sessions.data(), params, stats, 4).ok(), last_failure().sentence);
  for (size_t i = 0; i < 4; ++i) {
    CAPTURE(i);
    CHECK(together[i].thought == alone[i].thought);
    CHECK(together[i].answer == alone[i].answer);
    CHECK(stats[i].thought_tokens == alone[i].stats.thought_tokens);
    CHECK(stats[i].generated_tokens == 10);
  }
}

TEST_CASE("the plan of a thought, its marks and an answer is exact") {
  const auto answer = [](int32_t text_tokens) {
    const auto engine = make_engine(test::thinking_model(), board_limits(1, text_tokens));
    Session& session = open_session(*engine);
    Said said;
    const ocellus_generate_params params = params_for(100, 9, &said);
    REQUIRE(session.begin_turn().ok());
    REQUIRE(session.add_text("What is on the left?", false).ok());
    REQUIRE(session.end_turn().ok());
    Session* const one = &session;
    REQUIRE_MESSAGE(generate(&one, &params, &said.stats, 1).ok(), last_failure().sentence);
    return said.stats;
  };
  const int32_t prompt = answer(200).prompt_tokens;
  const int32_t marks = test::thinking_model().thought_marks().mark_tokens();
  const ocellus_generate_stats fits = answer(prompt + marks + 100 + 9);
  CHECK(fits.stop == OCELLUS_STOP_MAX_TOKENS);
  CHECK(fits.thought_tokens == 100);
  CHECK(fits.generated_tokens == 9);
  // Text is planned in whole pages, and the newest token is not read.
  const auto left_by = [&](int32_t text_tokens) {
    return static_cast<int32_t>(round_up(text_tokens, kPageSlots)) - prompt - marks + 1;
  };
  const ocellus_generate_stats shorter = answer(prompt + marks + 20);
  CHECK(shorter.stop == OCELLUS_STOP_MAX_TOKENS);
  CHECK(shorter.thought_tokens == left_by(prompt + marks + 20) - 9);
  CHECK(shorter.generated_tokens == 9);
  const ocellus_generate_stats full = answer(prompt + marks);
  const int32_t left = left_by(prompt + marks);
  CHECK(full.stop == OCELLUS_STOP_FULL);
  CHECK(full.thought_tokens == left - left / 2);
  CHECK(full.generated_tokens == left / 2);
}

TEST_CASE("a thought leaves the answer room, in slices, too") {
  const auto engine = make_engine(test::thinking_model(), board_limits(1, 96));
  Session& session = open_session(*engine);
  const Said whole = say(session, 1000, 30);
  CHECK(whole.stats.generated_tokens == 30);
  CHECK(whole.stats.thought_tokens > 20);
  for (const int32_t slice : {1, 7}) CHECK(say(session, 1000, 30, slice) == whole);
}

TEST_CASE("models that think if told, or never, answer at once") {
  for (const Model* model : {&test::willing_model(), &test::any_model()}) {
    ocellus_model_facts facts;
    model->describe(&facts);
    CHECK(facts.thinking == (model == &test::any_model() ? OCELLUS_THINKS_NEVER : OCELLUS_THINKS_IF_TOLD));
    CHECK(facts.thought_tokens == 0);
    const auto engine = make_engine(*model, board_limits(1, 200));
    const Said said = say(open_session(*engine), 20, 10);
    CHECK(said.thought.empty());
    CHECK(said.stats.thought_tokens + said.stats.thought_mark_tokens == 0);
    CHECK(said.stats.generated_tokens == 10);
  }
  ocellus_model_facts facts;
  test::thinking_model().describe(&facts);
  CHECK(facts.thinking == OCELLUS_THINKS_ALWAYS);
  CHECK(facts.thought_tokens == 1024);
}

TEST_CASE("a callback for thoughts stops an answer, which then goes on") {
  const auto engine = make_engine(test::thinking_model(), board_limits(1, 200));
  Session& session = open_session(*engine);
  const Said whole = say(session, 6, 8);
  Said said;
  ocellus_generate_params params = params_for(6, 8, &said);
  params.on_thought = [](void* user, const char* text, int32_t bytes) { return take_thought(user, text, bytes), 1; };
  REQUIRE(ask(session).ok());
  Session* const one = &session;
  int32_t calls = 0;
  do {
    REQUIRE_MESSAGE(generate(&one, &params, &said.stats, 1).ok(), last_failure().sentence);
    ++calls;
  } while (said.stats.stop == OCELLUS_STOP_CALLBACK);
  CHECK(calls > 2);
  CHECK(said.thought == whole.thought);
  CHECK(said.answer == whole.answer);
}

TEST_CASE("bounds that make no sense are refused") {
  const auto engine = make_engine(test::thinking_model(), board_limits(1, 200));
  Session& session = open_session(*engine);
  Session* const one = &session;
  ocellus_generate_params params = test::default_params();
  params.max_thought_tokens = -2;
  CHECK(generate(&one, &params, nullptr, 1).code() == Code::kBadArgument);
  params.max_thought_tokens = -1;
  params.slice_tokens = -1;
  CHECK(generate(&one, &params, nullptr, 1).code() == Code::kBadArgument);
}

}  // namespace ocellus
