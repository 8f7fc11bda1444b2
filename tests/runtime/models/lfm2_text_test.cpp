// LFM2's text model alone, whose first and last layers have convolutions: against transformers, however its prompt is
// cut, in batches and with drafts; what is refused with it.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/branches/measure/score.h"
#include "runtime/engine/memory_plan.h"
#include "tests/support/failure.h"
#include "tests/support/family_goldens.h"
#include "tests/support/small_pair.h"
#include "tests/support/text_cases.h"

namespace ocellus {
namespace {

using nlohmann::json;
using test::GgufBuilder;

const json& text_golden() {
  static const json family = test::read_family("lfm2-vl");
  return family["cases"][0];
}

std::vector<TokenId> prompt_tokens() { return text_golden()["ids"]; }

struct Lfm2 {
  explicit Lfm2(const ocellus_limits& limits) {
    REQUIRE_MESSAGE(model.open(test::family_pair("lfm2-vl").model.c_str(), nullptr).ok(), last_failure().sentence);
    engine = test::make_engine(model, limits);
  }
  Session& begin(const std::vector<TokenId>& tokens) const {
    Session& session = test::open_session(*engine);
    add(session, tokens);
    return session;
  }
  static void add(Session& session, const std::vector<TokenId>& tokens) {
    const Status status = session.add_tokens(tokens.data(), std::ssize(tokens));
    REQUIRE_MESSAGE(status.ok(), last_failure().sentence);
  }
  Model model;
  std::unique_ptr<Engine> engine;
};

ocellus_limits limits_of(int32_t chunk_rows, int32_t sessions = 1) {
  ocellus_limits limits = test::board_limits(0, 400);
  limits.max_prompt_rows = chunk_rows;
  limits.max_sessions = sessions;
  return limits;
}

ocellus_generate_params params_of(int32_t tokens) {
  ocellus_generate_params params = test::default_params(tokens);
  params.ignore_end = 1;
  return params;
}

GgufBuilder model_file() {
  GgufFile file;
  REQUIRE(file.open(test::family_pair("lfm2-vl").model.c_str()).ok());
  return GgufBuilder(file);
}

void check_refused(const GgufBuilder& builder, Code code, const std::string& says) {
  CAPTURE(says);
  const test::TemporaryFile file(builder);
  Model model;
  test::clear_failure();
  CHECK(model.open(file.c_str(), nullptr).code() == code);
  const std::string sentence = last_failure().sentence;
  CAPTURE(sentence);
  CHECK(sentence.find(says) != std::string::npos);
}

}  // namespace

TEST_CASE("a set of layers knows its members, and how many are before a layer") {
  constexpr int32_t kOthers[] = {0, 2, 63, 64, 130};
  const LayerSet all_but = LayerSet::all_but(kOthers);
  LayerSet few;
  for (const int32_t layer : {1, 65, 511}) few.add(layer);
  int32_t count = 0, few_count = 0;
  for (int32_t layer = 0; layer < LayerSet::kMostLayers; ++layer) {
    CAPTURE(layer);
    CHECK(all_but.before(layer) == count);
    CHECK(few.before(layer) == few_count);
    const bool is_other = std::find(std::begin(kOthers), std::end(kOthers), layer) != std::end(kOthers);
    CHECK(all_but.has(layer) == !is_other);
    count += is_other ? 0 : 1;
    few_count += few.has(layer) ? 1 : 0;
  }
  CHECK(few.before(LayerSet::kMostLayers) == 3);
}

TEST_CASE("answers of LFM2 are those of transformers, however the prompt is cut") {
  const std::vector<TokenId> prompt = prompt_tokens(), expected = text_golden()["tokens"];
  for (const int32_t rows : {0, 1, 2, 3, 5, 36}) {
    CAPTURE(rows);
    const Lfm2 lfm2(limits_of(rows));
    Session& session = lfm2.begin(prompt);
    const bool on_cuda = lfm2.engine->queue().on_cuda();
    std::vector<float> logits = test::first_logits(session);
    CHECK(test::sampled_error(logits, text_golden()["logits"]) < (on_cuda ? 2e-2 : 1.5e-3));
    for (size_t i = 0; i < expected.size() && (!on_cuda || text_golden()["gaps"][i] > 0.2); ++i) {
      CAPTURE(i);
      CHECK(test::most_likely(logits) == expected[i]);
      logits = test::decode(session, expected[i], std::ssize(prompt) + static_cast<int64_t>(i));
    }
  }
}

TEST_CASE("a conversation of LFM2 in pieces is one that is read at once") {
  const std::vector<TokenId> prompt = prompt_tokens();
  const Lfm2 lfm2(limits_of(0, 2));
  for (size_t first = 1; first < 5; ++first) {
    CAPTURE(first);
    Session& whole = lfm2.begin(prompt);
    Session& pieces = lfm2.begin({prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(first)});
    (void)test::first_logits(pieces);
    Lfm2::add(pieces, {prompt.begin() + static_cast<std::ptrdiff_t>(first), prompt.end()});
    const std::vector<float> logits = test::first_logits(pieces);
    CHECK(test::relative_error(logits.data(), test::first_logits(whole)) < 1e-2);
    whole.close();
    pieces.close();
  }
}

TEST_CASE("sessions of LFM2 have states of their own, and keep them while others answer") {
  const std::vector<TokenId> prompt = prompt_tokens();
  ocellus_limits limits = limits_of(0, 3);
  limits.batch_invariant = 1;
  const Lfm2 alone(limits), together(limits);
  std::vector<Session*> sessions;
  std::vector<test::Answer> expected;
  for (size_t i = 0; i < 3; ++i) {
    const std::vector<TokenId> part(prompt.begin(), prompt.begin() + 2 + 7 * static_cast<std::ptrdiff_t>(i));
    Session& session = alone.begin(part);
    expected.push_back(test::answer_of(session, params_of(40)));
    session.close();
    sessions.push_back(&together.begin(part));
  }
  const std::vector<test::Answer> answers = test::batch_answers(sessions, params_of(40));
  for (size_t i = 0; i < 3; ++i) test::check_equal(answers[i], expected[i]);
}

TEST_CASE("drafts change nothing in LFM2's answers") {
  ocellus_limits limits = limits_of(0);
  limits.batch_invariant = 1;
  const Lfm2 plain(limits);
  limits.draft_rows = 7;
  const Lfm2 drafting(limits);
  for (const float temperature : {0.0f, 0.5f}) {  // where all guesses are right, and where most are wrong
    CAPTURE(temperature);
    ocellus_generate_params params = params_of(120);
    params.temperature = temperature;
    params.seed = 7;
    Session& session = plain.begin(prompt_tokens());
    const test::Answer expected = test::answer_of(session, params);
    session.close();
    params.draft = OCELLUS_DRAFT_LOOKUP;
    Session& guessing = drafting.begin(prompt_tokens());
    const test::Answer answer = test::answer_of(guessing, params);
    guessing.close();
    CHECK(answer.text == expected.text);
    CHECK(answer.stats.logits_hash == expected.stats.logits_hash);
    CHECK(answer.stats.drafted_tokens > 0);
    CHECK((answer.stats.drafted_tokens > answer.stats.accepted_tokens) == (temperature > 0));
  }
}

TEST_CASE("a mark of LFM2 is returned to however much was read since, by the same bits") {
  const std::vector<TokenId> prompt = prompt_tokens();
  const Lfm2 lfm2(limits_of(0, 2));
  for (const std::ptrdiff_t first : {1, 2, 30}) {
    CAPTURE(first);
    Session& session = lfm2.begin({prompt.begin(), prompt.begin() + first});
    Session& other = lfm2.begin(prompt);
    REQUIRE(session.mark().ok());
    REQUIRE(other.mark().ok());
    std::vector<float> expected;
    for (const int32_t tokens : {1, 20, 60, 130}) {
      CAPTURE(tokens);
      Lfm2::add(session, {prompt.begin(), prompt.begin() + 1});  // a single row, which an answer follows
      const std::vector<float> logits = test::first_logits(session);
      if (expected.empty()) expected = logits;
      CHECK(logits == expected);
      REQUIRE(test::answer_of(session, params_of(tokens)).status.ok());
      (void)test::answer_of(other, params_of(5));
      CHECK(session.rewind());
    }
    session.close();
    other.close();
  }
}

TEST_CASE("a prompt of LFM2 that is not read to its end returns to the last answer, and from there to the mark") {
  const std::vector<TokenId> prompt = prompt_tokens();
  const Lfm2 lfm2(limits_of(8));
  Session& session = lfm2.begin(prompt);
  REQUIRE(session.mark().ok());
  const auto tell = [&] {
    Lfm2::add(session, prompt);
    test::Answer answer = test::answer_of(session, params_of(9));
    REQUIRE_MESSAGE(answer.status.ok(), last_failure().sentence);
    return answer;
  };
  const test::Answer first = tell(), second = tell();
  REQUIRE(session.rewind());
  test::check_equal(tell(), first);
  const int64_t position = session.next_position();
  Lfm2::add(session, prompt);
  const std::string text(60, 'a');
  ocellus_choice choice = {text.data(), std::ssize(text), 0, 0, 0};
  REQUIRE_MESSAGE(score_choices(session, &choice, 1).ok(), last_failure().sentence);
  for (int i = 0; i < 3; ++i) Lfm2::add(session, prompt);  // of which most is read early
  session.stop_signal().cancel();
  CHECK(test::answer_of(session, params_of(9)).status.code() == Code::kCancelled);
  CHECK(session.next_position() == position);
  test::check_equal(tell(), second);
  REQUIRE(session.rewind());
  test::check_equal(tell(), first);
}

TEST_CASE("LFM2 goes on after a long answer was scored as if none had been") {
  const std::vector<TokenId> prompt = prompt_tokens();
  const Lfm2 lfm2(limits_of(0));
  const std::string text(90, 'a');
  std::vector<test::Answer> answers;
  for (const bool scores : {false, true}) {
    Session& session = lfm2.begin(prompt);
    std::vector<ocellus_choice> choices(2, {text.data(), std::ssize(text), 0, 0, 0});
    if (scores) REQUIRE_MESSAGE(score_choices(session, choices.data(), 2).ok(), last_failure().sentence);
    CHECK(choices[0].log_probability == choices[1].log_probability);
    CHECK((choices[0].token_count > 40) == scores);
    answers.push_back(test::answer_of(session, params_of(20)));
    session.close();
  }
  CHECK(answers[0].text == answers[1].text);
  CHECK(answers[0].stats.logits_hash == answers[1].stats.logits_hash);
}

TEST_CASE("files of LFM2 whose layers contradict themselves are refused") {
  GgufBuilder file = model_file();
  test::without(file, "lfm2.shortconv.l_cache");
  check_refused(file, Code::kBadFile, "'lfm2.shortconv.l_cache' is missing");
  test::set_count(file, "lfm2.shortconv.l_cache", 4);
  check_refused(file, Code::kUnsupported, "lfm2.shortconv.l_cache is 4: this build runs convolutions over 3 rows");
  const auto with_heads = [](const std::vector<int32_t>& heads) {
    GgufBuilder changed = model_file();
    test::without(changed, "lfm2.attention.head_count_kv").add_i32_array("lfm2.attention.head_count_kv", heads);
    return changed;
  };
  check_refused(with_heads({0, 0, 0, 0}), Code::kUnsupported, "lfm2.attention.head_count_kv is 0 in all layers");
  check_refused(with_heads({0, 1, 1}), Code::kBadFile, "lfm2.attention.head_count_kv has 3 values for 4 layers");
  check_refused(with_heads({0, 1, 2, 0}), Code::kUnsupported, "lfm2.attention.head_count_kv differs between layers");
  check_refused(with_heads({0, 1, -1, 0}), Code::kBadFile, "lfm2.attention.head_count_kv holds the value -1");
  check_refused(with_heads({1, 1, 1, 0}), Code::kBadFile, "tensor 'blk.0.attn_q.weight' is missing");
  check_refused(with_heads({0, 0, 1, 0}), Code::kBadFile, "'blk.1.attn_q.weight' is of a layer that");
  file = model_file();
  test::set_tensor(file, "blk.0.shortconv.conv.weight", {4, 16});
  check_refused(file, Code::kBadFile, "'blk.0.shortconv.conv.weight'");
}

}  // namespace ocellus
