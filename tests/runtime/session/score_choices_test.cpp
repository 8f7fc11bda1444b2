// Probabilities of given answers, after which the conversation is as it was before.
#include "runtime/session/score_choices.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/support/cache_texts.h"
#include "tests/support/pairs.h"
#include "tests/support/thinking_model.h"
#include "tests/support/tiny_families.h"

namespace ocellus {
namespace {

using test::Answer;
using test::answer_of;
using test::board_limits;
using test::golden;
using test::make_engine;
using test::open_session;

const std::vector<std::string> kAnswers = {"A large cyan star.", "A large cyan star", "yes", "no"};

std::vector<ocellus_choice> choices_of(const std::vector<std::string>& texts, int32_t may_go_on = 0) {
  std::vector<ocellus_choice> choices;
  for (const std::string& text : texts) choices.push_back({text.data(), std::ssize(text), may_go_on, 0, 0});
  return choices;
}

std::vector<ocellus_choice> scored(Session& session, const std::vector<std::string>& texts, int32_t may_go_on = 0) {
  std::vector<ocellus_choice> choices = choices_of(texts, may_go_on);
  REQUIRE_MESSAGE(score_choices(session, choices.data(), static_cast<int32_t>(choices.size())).ok(),
                  last_failure().sentence);
  return choices;
}

Status refusal(Session& session, std::vector<ocellus_choice> choices) {
  return score_choices(session, choices.data(), static_cast<int32_t>(choices.size()));
}

std::vector<TokenId> tokens_of(const Model& model, const std::string& text, bool may_go_on) {
  Buffer<TokenId> tokens, end;
  REQUIRE(model.tokenize(text, {.answers = true}, &tokens).ok());
  REQUIRE(model.tokenize("", {.answers = true}, &end).ok());
  return {tokens.begin(), tokens.end() - (may_go_on ? end.size() : 0)};
}

/// In double precision, from all logits before each token, which is then added as a prompt.
template <class Ask>
double exact_score(Session& session, const std::vector<TokenId>& tokens, Ask ask) {
  session.reset();
  ask(session);
  double sum = 0;
  for (const TokenId token : tokens) {
    const std::vector<float> logits = test::first_logits(session);
    const double largest = *std::max_element(logits.begin(), logits.end());
    double total = 0;
    for (const float logit : logits) total += std::exp(logit - largest);
    sum += logits[static_cast<size_t>(token)] - largest - std::log(total);
    REQUIRE(session.add_tokens(&token, 1).ok());
  }
  return sum;
}

template <class Ask>
void check_exact(const Model& model, ocellus_limits limits, Ask ask) {
  std::vector<double> before;
  for (const int32_t draft_rows : {0, 7}) {
    limits.draft_rows = draft_rows;
    const auto engine = make_engine(model, limits);
    Session& session = open_session(*engine);
    for (const int32_t may_go_on : {0, 1}) {
      CAPTURE(draft_rows);
      CAPTURE(may_go_on);
      session.reset();
      ask(session);
      const std::vector<ocellus_choice> choices = scored(session, kAnswers, may_go_on);
      for (const ocellus_choice& choice : choices) {
        CAPTURE(choice.text);
        const std::vector<TokenId> tokens = tokens_of(model, choice.text, may_go_on != 0);
        CHECK(choice.token_count == std::ssize(tokens));
        const double bound = (test::rounds_factors(engine->queue()) ? 2e-2 : 1e-4) * choice.token_count;
        CHECK(std::abs(choice.log_probability - exact_score(session, tokens, ask)) < bound);
        before.push_back(choice.log_probability);
      }
    }
  }
  // Read one at a step or several, they are the same to the bit, but on a GPU, where drafts are summed in another
  // order.
  if (test::rounds_factors(make_engine(model, limits)->queue())) return;
  const auto half = before.begin() + std::ssize(before) / 2;
  CHECK(std::equal(before.begin(), half, half));
}

}  // namespace

TEST_CASE("choices have the probabilities that all logits give them, token by token") {
  check_exact(test::bundled_model(), board_limits(1, 200),
              [](Session& session) { test::add_question(session, golden(1)); });
}

TEST_CASE("so they have in every family" * doctest::test_suite("long")) {
  test::for_each_tiny_family([](const Model& model) {
    check_exact(model, test::family_limits(1), [](Session& session) {
      test::add_picture(session, test::wide_picture());
      test::add_words(session, "and say what it is");
    });
  });
}

TEST_CASE("a conversation goes on after choices as if none had been scored") {
  const auto check_goes_on = [](const ocellus_limits& limits, int32_t rolling) {
    const auto engine = test::make_bundled_engine(limits);
    Session& session = open_session(*engine);
    ocellus_generate_params params = test::default_params(30);
    params.temperature = 1.5f;
    params.frequency_penalty = 0.3f;
    std::vector<Answer> answers;
    for (const bool scores : {false, true}) {
      session.reset();
      REQUIRE(session.set_rolling(rolling, 16).ok());
      for (int turn = 0; turn < (rolling > 0 ? 4 : 2); ++turn) {
        test::add_question(session, golden(1));
        if (scores) {
          const std::vector<ocellus_choice> first = scored(session, kAnswers), again = scored(session, kAnswers);
          if (rolling == 0 && turn == 0) CHECK(first[0].log_probability > first[2].log_probability + 2);
          for (size_t i = 0; i < first.size(); ++i) CHECK(first[i].log_probability == again[i].log_probability);
        }
        answers.push_back(answer_of(session, params));
        REQUIRE_MESSAGE(answers.back().status.ok(), last_failure().sentence);
      }
    }
    for (size_t i = 0; i < answers.size() / 2; ++i) {
      test::check_equal(answers[i], answers[i + answers.size() / 2]);
      CHECK(answers[i].stats.prompt_tokens == answers[i + answers.size() / 2].stats.prompt_tokens);
    }
  };
  ocellus_limits limits = board_limits(2, 200);
  check_goes_on(limits, 0);
  check_goes_on(limits, 1);
  limits.draft_rows = 7;
  check_goes_on(limits, 0);
  limits.cache.kv_bits = 2;
  limits.cache.keep = 0.5f;
  test::set_text(limits.cache.evict, "snapkv");
  limits.draft_rows = 0;
  check_goes_on(limits, 0);
}

TEST_CASE("a family's answer is the same after choices" * doctest::test_suite("long")) {
  test::for_each_tiny_family([](const Model& model) {
    const auto engine = make_engine(model, test::family_limits(1));
    Session& session = open_session(*engine);
    std::vector<Answer> answers;
    for (const bool scores : {false, true}) {
      session.reset();
      test::add_picture(session, test::wide_picture());
      test::add_words(session, "and say what it is");
      if (scores) scored(session, kAnswers);
      answers.push_back(answer_of(session, test::default_params(20)));
    }
    test::check_equal(answers[0], answers[1]);
  });
}

TEST_CASE("a model that always thinks scores choices after an empty thought, others without one") {
  for (const Model* model : {&test::thinking_model(), &test::willing_model()}) {
    const auto engine = make_engine(*model, board_limits(1, 200));
    Session& session = open_session(*engine);
    test::add_question(session, golden(1));
    const ocellus_choice choice = scored(session, {"yes"})[0];
    const bool thinks = model == &test::thinking_model();
    const TokenId begin = model->thought_marks().begin_token();
    std::vector<TokenId> tokens;
    ThoughtState state = model->thought_marks().begin();
    for (TokenId mark; (mark = model->thought_marks().next(state)) != kNoToken;) {
      tokens.push_back(mark);
      model->thought_marks().accept(mark, 0, &state);
    }
    CHECK(tokens.empty() != thinks);
    if (thinks) CHECK(tokens[0] == begin);
    const size_t marks = tokens.size();
    for (const TokenId token : tokens_of(*model, "yes", false)) tokens.push_back(token);
    std::vector<float> each(tokens.size());
    ocellus_generate_stats stats;
    REQUIRE(score(session, {tokens.data(), static_cast<int32_t>(tokens.size()), each.data()}, &stats).ok());
    double sum = 0;
    for (size_t i = marks; i < each.size(); ++i) sum += double{each[i]};
    CHECK(choice.token_count == std::ssize(each) - static_cast<int64_t>(marks));
    CHECK(choice.log_probability == doctest::Approx(sum));
  }
}

TEST_CASE("choices that cannot be scored are refused, and nothing is lost") {
  const auto engine = test::make_bundled_engine(board_limits(1, 100));
  Session& session = open_session(*engine);
  CHECK(refusal(session, choices_of(kAnswers)).code() == Code::kBadArgument);  // nothing was asked
  test::add_question(session, golden(1));
  const std::string longest(300, 'x'), too_long(OCELLUS_MOST_CHOICE_BYTES + 1, 'x');
  CHECK(refusal(session, {}).code() == Code::kBadArgument);
  CHECK(refusal(session, choices_of({"yes", ""})).code() == Code::kBadArgument);
  CHECK(std::string(last_failure().sentence).find("choice 1 has 0 bytes") == 0);
  CHECK(refusal(session, choices_of({too_long})).code() == Code::kBadArgument);
  CHECK(refusal(session, choices_of({"yes", longest})).code() == Code::kFull);
  CHECK(session.next_position() == 0);
  const double yes = scored(session, {"yes"})[0].log_probability;
  session.stop_signal().set_deadline(1);
  CHECK(refusal(session, choices_of(kAnswers)).code() == Code::kDeadline);
  session.stop_signal().set_deadline(0);
  session.stop_signal().cancel();
  CHECK(session.acknowledge_cancel(refusal(session, choices_of(kAnswers))).code() == Code::kCancelled);
  CHECK(scored(session, {"yes"})[0].log_probability == yes);
  CHECK(answer_of(session, test::default_params(3)).text == " A large cyan");
  CHECK(refusal(session, choices_of(kAnswers)).code() == Code::kBadArgument);
  CHECK(std::string(last_failure().sentence).find("has begun") != std::string::npos);

  ocellus_limits limits = board_limits(1, 100);
  test::set_text(limits.cache.evict, "h2o");
  limits.cache.keep = 0.5f;
  const auto evicting = test::make_bundled_engine(limits);
  CHECK(refusal(open_session(*evicting), choices_of(kAnswers)).code() == Code::kUnsupported);
}

}  // namespace ocellus
