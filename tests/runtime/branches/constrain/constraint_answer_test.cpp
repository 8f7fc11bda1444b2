// Answers under constraints: what they may be, where they end, and that drafts, batches and slices change nothing.
#include <doctest/doctest.h>

#include <array>
#include <regex>
#include <string>

#include "tests/support/constrained_answers.h"
#include "tests/support/family_goldens.h"
#include "tests/support/small_run.h"
#include "tests/support/thinking_model.h"

namespace ocellus {
namespace {

using test::Answer;
using test::constrain;
using test::golden;
using test::open_session;

constexpr char kThings[] =
    R"({"type": "object", "required": ["things", "sure"], "properties": {"things": {"type": "array", "minItems": 2,
        "maxItems": 3, "items": {"type": "object", "required": ["colour", "kind"], "properties": {
          "colour": {"enum": ["red", "green", "blue"]}, "kind": {"type": "string", "maxLength": 6}}}},
        "sure": {"type": "boolean"}}})";
constexpr char kThingsPattern[] =
    R"x(\{"things": \[(\{"colour": "(red|green|blue)", "kind": ".*?"\}(, )?){2,3}\], "sure": (true|false)\})x";

ocellus_limits constrained_limits(int32_t draft_rows, int32_t constraints = 2) {
  ocellus_limits limits = test::board_limits(1, 300);
  limits.max_constraints = constraints;
  limits.draft_rows = draft_rows;
  limits.batch_invariant = 1;  // as drafts are
  return limits;
}

ocellus_generate_params params_with(const ocellus_constraint* constraint, float temperature = 0, uint64_t seed = 1) {
  ocellus_generate_params params = test::default_params(150);
  params.constraint = constraint;
  params.temperature = temperature;
  params.seed = seed;
  return params;
}

Answer ask(Session& session, const ocellus_generate_params& params, int id = 0) {
  session.reset();
  test::add_question(session, golden(id));
  return test::answer_of(session, params);
}

TEST_CASE("an answer under a regular expression matches it and ends where nothing may follow") {
  const auto engine = test::make_engine(constrained_limits(0));
  Session& session = open_session(*engine);
  const ocellus_constraint* const colour = constrain(*engine, OCELLUS_CONSTRAINT_REGEX, "(a (red|green) circle|é😀!)");
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const Answer answer = ask(session, params_with(colour, seed == 0 ? 0.0f : 5.0f, seed));
    CHECK((answer.text == "a red circle" || answer.text == "a green circle" || answer.text == "é😀!"));
    CHECK(answer.stats.stop == OCELLUS_STOP_END_TOKEN);
  }
}

TEST_CASE("a model whose answers begin with a space may begin with one before what a constraint describes") {
  const auto engine = test::make_engine(constrained_limits(0));
  Session& session = open_session(*engine);
  const std::string free = ask(session, params_with(nullptr)).text;
  REQUIRE(free.starts_with(' '));
  const std::string rest = free.substr(1);
  const std::string any = R"([A-Z](.|\n)*)";
  CHECK(ask(session, params_with(constrain(*engine, OCELLUS_CONSTRAINT_REGEX, any))).text == rest);
  // A form with a space of its own, which is in the text.
  CHECK(ask(session, params_with(constrain(*engine, OCELLUS_CONSTRAINT_REGEX, " " + any))).text == free);
}

TEST_CASE("answers under a schema satisfy it at any temperature, and are the same with drafts and without") {
  const auto plain_engine = test::make_engine(constrained_limits(0)), engine = test::make_engine(constrained_limits(7));
  Session& plain = open_session(*plain_engine);
  Session& session = open_session(*engine);
  const ocellus_constraint* const plain_things = constrain(*plain_engine, OCELLUS_CONSTRAINT_SCHEMA, kThings);
  const ocellus_constraint* const things = constrain(*engine, OCELLUS_CONSTRAINT_SCHEMA, kThings);
  int32_t steps = 0, plain_steps = 0;
  for (uint64_t seed = 0; seed < (test::is_slow_run() ? 3 : 12); ++seed) {
    const float temperature = seed == 0 ? 0.0f : 1.5f;
    const Answer answer = ask(session, params_with(things, temperature, seed));
    CAPTURE(answer.text);
    CHECK(std::regex_match(answer.text, std::regex(kThingsPattern)));
    CHECK(answer.stats.stop == OCELLUS_STOP_END_TOKEN);
    const Answer without = ask(plain, params_with(plain_things, temperature, seed));
    CHECK(answer.text == without.text);
    CHECK(answer.stats.generated_tokens == without.stats.generated_tokens);
    steps += answer.stats.decode_steps;
    plain_steps += without.stats.decode_steps;
  }
  CHECK(2 * steps < plain_steps);  // what is forced is read together
}

TEST_CASE("sessions of a batch are constrained each by its own, or not at all") {
  ocellus_limits limits = constrained_limits(7);
  limits.max_sessions = 3;
  const auto engine = test::make_engine(limits);
  const std::vector<Session*> sessions = {&open_session(*engine), &open_session(*engine), &open_session(*engine)};
  const ocellus_constraint* const things = constrain(*engine, OCELLUS_CONSTRAINT_SCHEMA, kThings);
  const ocellus_constraint* const word = constrain(*engine, OCELLUS_CONSTRAINT_REGEX, "[a-z]{3,9}");
  const std::array<ocellus_generate_params, 3> params = {params_with(things, 1.0f), params_with(word, 1.0f),
                                                         params_with(nullptr, 1.0f)};
  std::array<std::string, 3> alone;
  for (size_t i = 0; i < 3; ++i) alone[i] = ask(*sessions[i], params[i]).text;
  for (Session* const session : sessions) {
    session->reset();
    test::add_question(*session, golden(0));
  }
  const std::vector<Answer> together = test::batch_answers(sessions, std::vector(params.begin(), params.end()));
  for (size_t i = 0; i < 3; ++i) CHECK(together[i].text == alone[i]);
}

TEST_CASE("compiling ends with a cancellation or deadline, and the place is free again") {
  const auto engine = test::make_engine(constrained_limits(0, 1));
  ConstraintMemory& constraints = constraints_of(*engine);
  const std::string text = "[a-z]{1,900}(?: [a-z]{1,800}){0,700}";
  ocellus_constraint_params params;
  ocellus_constraint_params_init(&params);
  params.kind = OCELLUS_CONSTRAINT_REGEX;
  params.text = text.data();
  params.text_bytes = std::ssize(text);
  StopSignal stop;
  ConstraintSlot* slot = nullptr;
  stop.cancel();
  CHECK(constraints.open(params, &stop, &slot).code() == Code::kCancelled);
  stop.acknowledge();
  stop.set_deadline(1);
  CHECK(constraints.open(params, &stop, &slot).code() == Code::kDeadline);
  CHECK(slot == nullptr);
  stop.set_deadline(0);
  REQUIRE(constraints.open(params, &stop, &slot).ok());
  ConstraintSlot* second = nullptr;
  CHECK(constraints.open(params, &stop, &second).code() == Code::kFull);
  slot->close();
}

TEST_CASE("an answer that is given in slices is the whole one") {
  const auto engine = test::make_engine(constrained_limits(7));
  Session& session = open_session(*engine);
  ocellus_generate_params params = params_with(constrain(*engine, OCELLUS_CONSTRAINT_SCHEMA, kThings), 1.0f);
  const std::string whole = ask(session, params).text;
  for (const int32_t slice : {1, 3, 7}) {
    session.reset();
    test::add_question(session, golden(0));
    params.slice_tokens = slice;
    std::string text;
    for (int i = 0; i < 150; ++i) {
      const Answer part = test::answer_of(session, params);
      text += part.text;
      if (part.stats.stop != OCELLUS_STOP_MAX_TOKENS) break;
    }
    CHECK(text == whole);
  }
  CHECK_MESSAGE(ask(session, params).stats.stop == OCELLUS_STOP_MAX_TOKENS, "a cut answer");
  params.constraint = constrain(*engine, OCELLUS_CONSTRAINT_REGEX, "a");
  ocellus_generate_stats stats;
  Session* const one = &session;
  CHECK(generate(&one, &params, &stats, 1).code() == Code::kBadArgument);
}

TEST_CASE("a thought is free, and the answer after it is constrained") {
  for (const Model* const model : {&test::thinking_model(), &test::willing_model()}) {
    ocellus_limits limits = constrained_limits(0);
    limits.max_text_tokens = 400;
    const auto engine = test::make_engine(*model, limits);
    Session& session = open_session(*engine);
    ocellus_generate_params params = params_with(constrain(*engine, OCELLUS_CONSTRAINT_REGEX, "[0-9]{3}-x"), 1.0f);
    params.max_thought_tokens = 9;
    const ocellus_logit_bias ends = {engine->tokenizer().find("<end_of_utterance>"), 100.0f};
    params.logit_bias = &ends;
    params.logit_bias_count = 1;
    std::string thought;
    params.on_thought = [](void* user, const char* text, int32_t bytes) {
      static_cast<std::string*>(user)->append(text, static_cast<size_t>(bytes));
      return 0;
    };
    params.thought_user = &thought;
    const Answer answer = ask(session, params);
    CHECK_MESSAGE(std::regex_match(answer.text, std::regex("[0-9]{3}-x")), answer.text);
    CHECK((thought.empty() || !std::regex_match(thought, std::regex("[0-9-x]*"))));
    CHECK((model != &test::thinking_model() || !thought.empty()));
  }
}

TEST_CASE("constraints that cannot be used are told in one sentence, and their places can be used again") {
  const auto engine = test::make_engine(constrained_limits(0, 1)), other = test::make_engine(constrained_limits(0, 1));
  const ocellus_constraint* constraint = nullptr;
  for (int i = 0; i < 3; ++i) {
    CHECK(test::open_constraint(*engine, OCELLUS_CONSTRAINT_SCHEMA, R"({"minimum": "a"})", &constraint).code() ==
          Code::kBadArgument);
    CHECK(
        test::open_constraint(*engine, OCELLUS_CONSTRAINT_GRAMMAR, "root ::= root \"a\" | \"b\"", &constraint).code() ==
        Code::kUnsupported);
    CHECK(test::open_constraint(*engine, OCELLUS_CONSTRAINT_GRAMMAR, "root ::= \"a\" root", &constraint).code() ==
          Code::kUnsupported);
  }
  constraint = constrain(*engine, OCELLUS_CONSTRAINT_REGEX, "a|b");
  const ocellus_constraint* second = nullptr;
  CHECK(test::open_constraint(*engine, OCELLUS_CONSTRAINT_REGEX, "a", &second).code() == Code::kFull);
  Session& session = open_session(*engine);
  ocellus_generate_params params = params_with(constrain(*other, OCELLUS_CONSTRAINT_REGEX, "a"));
  ocellus_generate_stats stats;
  Session* const one = &session;
  test::add_question(session, golden(0));
  CHECK(generate(&one, &params, &stats, 1).code() == Code::kBadArgument);
  params.constraint = constraint;
  params.ignore_end = 1;
  CHECK(generate(&one, &params, &stats, 1).code() == Code::kBadArgument);
  const std::string text = ask(session, params_with(constraint)).text;
  CHECK((text == "a" || text == "b"));
}

}  // namespace
}  // namespace ocellus
