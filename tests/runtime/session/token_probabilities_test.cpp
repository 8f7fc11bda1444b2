// Log-probabilities of an answer's tokens, and biases, in whole conversations; the op has tests of its own.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "runtime/branches/measure/score.h"
#include "tests/support/loaded_engine.h"

namespace ocellus {
namespace {

using test::Answer;
using test::board_limits;
using test::golden;
using test::open_session;

struct Reported {
  std::string text;
  std::vector<int32_t> tokens;
  std::vector<float> logarithms;
  std::vector<std::vector<ocellus_token_probability>> tops;
  int32_t stops_after = -1;  // -1: never
};

int collect_token(void* user, const ocellus_token_probability* chosen, const ocellus_token_probability* top,
                  int32_t top_count) {
  auto& all = *static_cast<Reported*>(user);
  all.text.append(chosen->text, static_cast<size_t>(chosen->text_bytes));
  all.tokens.push_back(chosen->token);
  all.logarithms.push_back(chosen->log_probability);
  all.tops.emplace_back(top, top + top_count);
  return std::ssize(all.tokens) == all.stops_after ? 1 : 0;
}

ocellus_limits limits_with(int32_t top_logprobs, int32_t draft_rows = 0) {
  ocellus_limits limits = board_limits(1, 200);
  limits.max_top_logprobs = top_logprobs;
  limits.draft_rows = draft_rows;
  return limits;
}

ocellus_generate_params reporting(Reported* reported, int32_t top, float temperature) {
  ocellus_generate_params params = test::default_params(40);
  params.on_token = collect_token;
  params.token_user = reported;
  params.top_logprobs = top;
  params.temperature = temperature;
  params.seed = 3;
  return params;
}

Answer ask(Session& session, const ocellus_generate_params& params) {
  session.reset();
  test::add_question(session, golden(0));
  return test::answer_of(session, params);
}

std::string refusal_of(const ocellus_generate_params& params, const ocellus_limits& limits) {
  const auto engine = test::make_engine(limits);
  const Answer answer = ask(open_session(*engine), params);
  CHECK(answer.status.code() == Code::kBadArgument);
  return last_failure().sentence;
}

}  // namespace

TEST_CASE("every token of an answer comes with its probability, and that is what scoring the answer gives") {
  for (const int32_t draft_rows : {0, 4}) {
    const auto engine = test::make_engine(limits_with(5, draft_rows));
    Session& session = open_session(*engine);
    for (const float temperature : {0.0f, 1.5f}) {
      CAPTURE(draft_rows);
      CAPTURE(temperature);
      Reported reported;
      ocellus_generate_params params = reporting(&reported, 5, temperature);
      params.frequency_penalty = 0.4f;
      params.repetition_penalty = 1.1f;
      const Answer answer = ask(session, params);
      REQUIRE_MESSAGE(answer.status.ok(), last_failure().sentence);
      CHECK(reported.text == answer.text);
      REQUIRE(std::ssize(reported.tokens) == answer.stats.generated_tokens);

      session.reset();
      test::add_question(session, golden(0));
      std::vector<float> scores(reported.tokens.size());
      ocellus_generate_stats stats;
      const auto count = static_cast<int32_t>(scores.size());
      REQUIRE(score(session, {reported.tokens.data(), count, scores.data()}, &stats).ok());
      for (size_t i = 0; i < scores.size(); ++i) {
        CAPTURE(i);
        CHECK(reported.logarithms[i] == doctest::Approx(scores[i]).epsilon(1e-4));
        const auto& top = reported.tops[i];
        REQUIRE(top.size() == 5);
        double total = 0;
        for (size_t t = 0; t < top.size(); ++t) {
          if (t > 0) CHECK(top[t].log_probability <= top[t - 1].log_probability);
          if (top[t].token == reported.tokens[i]) CHECK(top[t].log_probability == reported.logarithms[i]);
          total += std::exp(double{top[t].log_probability});
        }
        CHECK(total <= 1 + 1e-6);
      }
    }
  }
}

TEST_CASE("a receiver of tokens ends the answer where it wants, and asks for no list if it needs none") {
  const auto engine = test::make_engine(limits_with(1));
  Reported reported;
  reported.stops_after = 2;
  const Answer answer = ask(open_session(*engine), reporting(&reported, 0, 0));
  CHECK(answer.stats.stop == OCELLUS_STOP_CALLBACK);
  CHECK(answer.stats.generated_tokens == 2);
  CHECK(reported.tokens.size() == 2);
  for (const auto& top : reported.tops) CHECK(top.empty());
}

TEST_CASE("probabilities that were not planned are refused, and so are bad biases") {
  Reported reported;
  CHECK(refusal_of(reporting(&reported, 0, 0), limits_with(0)).find("max_top_logprobs") != std::string::npos);
  CHECK(refusal_of(reporting(&reported, 4, 0), limits_with(3)).find("between 0 and the planned 3") !=
        std::string::npos);
  ocellus_generate_params params = test::default_params(4);
  const ocellus_logit_bias bias = {1 << 30, 1};
  params.logit_bias = &bias;
  params.logit_bias_count = 1;
  CHECK(refusal_of(params, limits_with(0)).find("the bias of token") != std::string::npos);
}

TEST_CASE("a bias keeps a token out of an answer, or makes it one") {
  const auto engine = test::make_engine(limits_with(3));
  Session& session = open_session(*engine);
  Reported plain, without, only;
  ocellus_generate_params params = reporting(&plain, 3, 0);
  REQUIRE(ask(session, params).status.ok());
  ocellus_logit_bias bias = {plain.tokens[0], -100};
  params.logit_bias = &bias;
  params.logit_bias_count = 1;
  params.token_user = &without;
  REQUIRE(ask(session, params).status.ok());
  CHECK(std::count(without.tokens.begin(), without.tokens.end(), bias.token) == 0);
  // The list is the model's, whatever the bias.
  CHECK(without.tops[0][0].token == bias.token);
  CHECK(without.tops[0][1].token == without.tokens[0]);
  bias.bias = 100;
  params.token_user = &only;
  params.max_tokens = 3;
  REQUIRE(ask(session, params).status.ok());
  CHECK(only.tokens == std::vector<int32_t>(3, bias.token));
}

}  // namespace ocellus
