// Given answers instead of generated ones: their probabilities, and the conversation after them.
#include "runtime/branches/measure/score.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/branches/roll/roll.h"
#include "tests/support/cache_texts.h"
#include "tests/support/golden_arrays.h"
#include "tests/support/loaded_engine.h"
#include "tests/support/pairs.h"
#include "tests/support/random.h"
#include "tests/support/random_model.h"
#include "tests/support/reference_model.h"
#include "tests/support/thinking_model.h"
#include "tests/support/tiny_families.h"

namespace ocellus {
namespace {

using test::answer_of;
using test::board_limits;
using test::default_params;
using test::golden;
using test::make_engine;
using test::open_session;

struct Scored {
  Status status;
  std::vector<float> log_probabilities;
  ocellus_generate_stats stats = {};
  double sum() const {
    double total = 0;
    for (const float value : log_probabilities) total += double{value};
    return total;
  }
};

Scored score_of(Session& session, const std::vector<TokenId>& tokens) {
  constexpr float kUntouched = 7;
  Scored scored;
  scored.log_probabilities.assign(tokens.size(), kUntouched);
  const ForcedAnswer answer{tokens.data(), static_cast<int32_t>(tokens.size()), scored.log_probabilities.data()};
  scored.status = score(session, answer, &scored.stats);
  if (scored.status.ok()) CHECK(scored.stats.generated_tokens == answer.count);
  for (size_t i = static_cast<size_t>(scored.stats.generated_tokens); i < tokens.size(); ++i)
    CHECK(scored.log_probabilities[i] == kUntouched);
  return scored;
}

Scored scored_well(Session& session, const std::vector<TokenId>& tokens) {
  Scored scored = score_of(session, tokens);
  REQUIRE_MESSAGE(scored.status.ok(), last_failure().sentence);
  return scored;
}

/// ln softmax(logits)[token]
double log_probability(const double* logits, int64_t count, TokenId token) {
  const double largest = *std::max_element(logits, logits + count);
  double total = 0;
  for (int64_t i = 0; i < count; ++i) total += std::exp(logits[i] - largest);
  return logits[token] - largest - std::log(total);
}

std::vector<TokenId> random_tokens(int64_t count, uint64_t seed) {
  test::Random random(seed);
  std::vector<TokenId> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<TokenId>(random.integer(0, 255)));
  return tokens;
}

/// The golden's reference answer, its end token included.
std::vector<TokenId> golden_answer(int id) { return golden(id).generated_ids; }

const std::vector<std::string> kChoices = {"A large cyan star.", "A large cyan star", "yes", "no"};

struct ScoredChoices {
  Status status;
  std::vector<double> values;
};

ScoredChoices score_texts(Session& session, const std::vector<std::string>& texts = kChoices, int32_t may_go_on = 0) {
  std::vector<ocellus_choice> choices;
  for (const std::string& text : texts) choices.push_back({text.data(), std::ssize(text), may_go_on, 0, 0});
  ScoredChoices scored = {score_choices(session, choices.data(), static_cast<int32_t>(choices.size())), {}};
  for (const ocellus_choice& choice : choices) scored.values.push_back(choice.log_probability);
  return scored;
}

/// From all logits before each token, which is then added to the prompt. The last ones may be left out.
double exact_score(Session& session, const std::string& answer, int32_t left_out = 0) {
  Buffer<TokenId> tokens;
  REQUIRE(session.engine().model().tokenize(answer, {.answers = true}, &tokens).ok());
  double sum = 0;
  for (int64_t i = 0; i < tokens.size() - left_out; ++i) {
    const std::vector<float> logits = test::first_logits(session);
    const std::vector<double> exact(logits.begin(), logits.end());
    sum += log_probability(exact.data(), std::ssize(exact), tokens[i]);
    REQUIRE(session.add_tokens(&tokens[i], 1).ok());
  }
  return sum;
}

/// Compares scores, read by one token at a step and by several, with exact ones, and answers after them with others.
template <class Ask>
void check_choices(const Model& model, ocellus_limits limits, Ask ask) {
  std::vector<double> one_by_one;
  for (const int32_t draft_rows : {0, 7}) {
    CAPTURE(draft_rows);
    limits.draft_rows = draft_rows;
    const auto engine = make_engine(model, limits);
    Session& session = open_session(*engine);
    const bool rounds = engine->queue().on_cuda() || test::takes_pairs(WeightFormat::kQ8_0, 8);
    ask(session);
    const test::Answer plain = answer_of(session, default_params(20));
    for (const int32_t may_go_on : {1, 0}) {
      session.reset();
      ask(session);
      const std::vector<double> found = score_texts(session, kChoices, may_go_on).values;
      test::check_equal(answer_of(session, default_params(20)), plain);
      for (size_t i = 0; i < found.size(); ++i) {
        session.reset();
        ask(session);
        const double exact = exact_score(session, kChoices[i], may_go_on);
        // One input that is rounded the other way moves the large logarithm of an unlikely token further.
        CHECK(std::abs(found[i] - exact) < (rounds ? 0.3 : 1e-3 - 2e-4 * exact));
      }
      if (may_go_on != 0) continue;
      if (draft_rows > 0 && !rounds) CHECK(found == one_by_one);  // on a GPU drafts change the order of sums
      one_by_one = found;
    }
  }
}

/// A small random model, with room for `text_tokens` tokens.
struct SmallModel {
  explicit SmallModel(int32_t tokens, int32_t sessions = 1) : file(test::TextRecipe(), 3) {
    REQUIRE_MESSAGE(model.open(file.path().c_str(), nullptr).ok(), last_failure().sentence);
    ocellus_limits limits = board_limits(0, tokens);
    limits.max_sessions = sessions;
    engine = make_engine(model, limits);
    session = &open_session(*engine);
  }
  test::TemporaryModel file;
  Model model;
  std::unique_ptr<Engine> engine;
  Session* session = nullptr;
};

}  // namespace

TEST_CASE("log-probabilities equal the double-precision reference's, token by token and in sum") {
  const SmallModel small(100, 3);
  const std::vector<TokenId> prompt = random_tokens(41, 1), answer = random_tokens(40, 2);
  REQUIRE(small.session->add_tokens(prompt.data(), std::ssize(prompt)).ok());
  const Scored scored = scored_well(*small.session, answer);
  CHECK(scored.stats.prompt_tokens == 41);
  CHECK(scored.stats.stop == OCELLUS_STOP_MAX_TOKENS);
  CHECK(small.session->next_position() == 41 + 39);  // the last one waits to be read

  std::vector<TokenId> all = prompt;
  all.insert(all.end(), answer.begin(), answer.end());
  const test::ReferenceText reference(small.model.text_file());
  const test::Matrix logits = reference.logits(reference.read(reference.embed(all)));
  double worst = 0, sum = 0;
  for (size_t i = 0; i < answer.size(); ++i) {
    const double expected =
        log_probability(logits.row(static_cast<int64_t>(prompt.size() + i) - 1), logits.cols, answer[i]);
    worst = std::max(worst, std::abs(double{scored.log_probabilities[i]} - expected));
    sum += expected;
  }
  MESSAGE("largest difference " << worst << ", of the sum " << std::abs(scored.sum() - sum) << " of " << sum);
  // Keys and values may round to the neighbouring half float; on CUDA activations are f16 between operations.
  const double bound = small.engine->queue().on_cuda() ? 5e-2 : 2e-3;
  CHECK(worst < bound);
  CHECK(std::abs(scored.sum() - sum) < 4 * bound);
}

TEST_CASE("forcing what greedy decoding says walks the same way and finds the largest probabilities" *
          doctest::test_suite("long")) {
  const std::unique_ptr<Engine> engine = test::make_bundled_engine(board_limits(4, 200));
  Session& session = open_session(*engine);
  for (const int id : {0, 12}) {
    CAPTURE(id);
    session.reset();
    const test::Answer said = test::answer_golden(session, id);
    const int64_t position = session.next_position();
    const std::vector<TokenId> answer = golden_answer(id);  // golden_test sees that it is what is said
    REQUIRE(said.stats.generated_tokens + 1 == std::ssize(answer));

    session.reset();
    test::add_question(session, golden(id));
    const std::vector<float> first = test::first_logits(session);
    const Scored scored = scored_well(session, answer);
    CHECK(scored.stats.stop == OCELLUS_STOP_END_TOKEN);
    CHECK(scored.stats.logits_hash == said.stats.logits_hash);
    CHECK(scored.stats.kv_bytes == said.stats.kv_bytes);
    CHECK(session.next_position() == position);
    const std::vector<double> exact(first.begin(), first.end());
    double largest = -1e9;
    for (TokenId token = 0; token < std::ssize(first); ++token)
      largest = std::max(largest, log_probability(exact.data(), std::ssize(exact), token));
    CHECK(double{scored.log_probabilities[0]} == doctest::Approx(largest).epsilon(1e-5));
    for (const float value : scored.log_probabilities) CHECK(value > std::log(0.3f));
    CHECK(scored.sum() < 0);

    // Any other token in its place is less likely, and so is what follows it.
    std::vector<TokenId> other = answer;
    other[2] = other[2] == 300 ? 301 : 300;
    session.reset();
    test::add_question(session, golden(id));
    const Scored worse = scored_well(session, other);
    CHECK(worse.log_probabilities[0] == scored.log_probabilities[0]);
    CHECK(worse.log_probabilities[1] == scored.log_probabilities[1]);
    CHECK(worse.log_probabilities[2] < scored.log_probabilities[2]);
    CHECK(worse.sum() < scored.sum());
  }
}

TEST_CASE("the first token's probability is that of the float32 reference's logits") {
  const std::unique_ptr<Engine> engine = test::make_bundled_engine(board_limits(1, 200));
  Session& session = open_session(*engine);
  for (const int id : {0, 1, 5}) {
    CAPTURE(id);
    session.reset();
    test::add_question(session, golden(id));
    const std::vector<float> logits = test::read_halves(test::kShapeboardDir + golden(id).first_logits);
    const std::vector<double> exact(logits.begin(), logits.end());
    const TokenId token = golden_answer(id)[0];
    const double expected = log_probability(exact.data(), std::ssize(exact), token);
    CHECK(std::abs(double{scored_well(session, {token}).log_probabilities[0]} - expected) < 0.05);
  }
}

TEST_CASE("a conversation goes on after a forced answer as after one that was said") {
  const std::unique_ptr<Engine> engine = test::make_bundled_engine(board_limits(2, 300));
  Session& session = open_session(*engine);
  test::answer_golden(session, 3);
  test::add_question(session, golden(1));
  const test::Answer second = answer_of(session);

  session.reset();
  test::add_question(session, golden(3));
  scored_well(session, golden_answer(3));
  test::add_question(session, golden(1));
  const test::Answer after_forced = answer_of(session);
  CHECK(after_forced.text == second.text);
  CHECK(after_forced.stats.logits_hash == second.stats.logits_hash);
  CHECK(session.cache().rows() == session.next_position());

  // Half of an answer is forced, the model finds the rest; or the rest is forced in a second call.
  session.reset();
  const test::Answer whole = test::answer_golden(session, 0);
  const std::vector<TokenId> answer = golden_answer(0);
  const std::vector<TokenId> begin(answer.begin(), answer.begin() + 9), end(answer.begin() + 9, answer.end());
  session.reset();
  test::add_question(session, golden(0));
  const Scored one = scored_well(session, answer);
  session.reset();
  test::add_question(session, golden(0));
  const Scored first = scored_well(session, begin);
  const test::Answer rest = answer_of(session);
  REQUIRE(rest.status.ok());
  CHECK(rest.text.size() > 20);
  CHECK(whole.text.substr(whole.text.size() - rest.text.size()) == rest.text);
  session.reset();
  test::add_question(session, golden(0));
  scored_well(session, begin);
  const Scored last = scored_well(session, end);
  CHECK(first.sum() + last.sum() == doctest::Approx(one.sum()).epsilon(0.02));
  // The answer ended: nothing is left to go on from.
  CHECK(score_of(session, {5}).status.code() == Code::kBadArgument);
}

TEST_CASE("what cannot be scored is refused, and nothing is lost") {
  const std::unique_ptr<Engine> engine = test::make_bundled_engine(board_limits(1, 100));
  Session& session = open_session(*engine);
  CHECK(score_of(session, {5}).status.code() == Code::kBadArgument);  // nothing was asked
  test::add_question(session, golden(1));
  const int64_t waiting = engine->memory().chunk.row_count;
  CHECK(score_of(session, {}).status.code() == Code::kBadArgument);
  CHECK(score_of(session, {5, 1024}).status.code() == Code::kBadArgument);
  CHECK(std::string(last_failure().sentence).find("1024") != std::string::npos);
  CHECK(score_of(session, {-1}).status.code() == Code::kBadArgument);
  CHECK(score_of(session, std::vector<TokenId>(100, 5)).status.code() == Code::kFull);
  CHECK(std::string(last_failure().sentence).find("plan more") != std::string::npos);
  CHECK(session.next_position() == 0);
  CHECK(engine->memory().chunk.row_count == waiting);

  CHECK(answer_of(session).text == " A large cyan star.");  // as if it had not been tried
}

TEST_CASE("as many tokens as are planned can be scored, and one more cannot") {
  const SmallModel small(64);
  const std::vector<TokenId> prompt = random_tokens(20, 4), answer = random_tokens(45, 5);
  REQUIRE(small.session->add_tokens(prompt.data(), 20).ok());
  std::vector<TokenId> longer = answer;
  longer.push_back(1);
  CHECK(score_of(*small.session, longer).status.code() == Code::kFull);
  CHECK(small.session->next_position() == 0);
  const Scored scored = scored_well(*small.session, answer);
  CHECK(small.session->next_position() == 64);
  CHECK(score_of(*small.session, {1}).status.code() == Code::kFull);  // the last one has no room to be read
  small.session->reset();
  REQUIRE(small.session->add_tokens(prompt.data(), 20).ok());
  CHECK(scored_well(*small.session, answer).log_probabilities == scored.log_probabilities);
}

TEST_CASE("scoring stops when it is told to, and what was read stays") {
  const SmallModel small(4000);
  Session& session = *small.session;
  const std::vector<TokenId> prompt = random_tokens(20, 4), answer = random_tokens(3900, 5);
  REQUIRE(session.add_tokens(prompt.data(), 20).ok());
  session.stop_signal().cancel();
  CHECK(session.acknowledge_cancel(score_of(session, answer).status).code() == Code::kCancelled);
  CHECK(session.next_position() == 0);  // the prompt was not read

  REQUIRE(session.add_tokens(prompt.data(), 20).ok());
  const Scored all = scored_well(session, answer);
  const double whole_ns = 1e6 * all.stats.decode_ms;
  session.reset();
  REQUIRE(session.add_tokens(prompt.data(), 20).ok());
  session.stop_signal().set_deadline(now_ns() + static_cast<int64_t>(whole_ns / 4));
  const Scored part = score_of(session, answer);
  CHECK(part.status.code() == Code::kDeadline);
  CHECK(part.stats.stop == OCELLUS_STOP_DEADLINE);
  const int64_t read = part.stats.generated_tokens;
  CHECK(read < 3900);
  session.stop_signal().set_deadline(0);
  CHECK(session.cache().rows() == session.next_position());
  CHECK(
      std::equal(part.log_probabilities.begin(), part.log_probabilities.begin() + read, all.log_probabilities.begin()));
  const Scored rest = scored_well(session, std::vector<TokenId>(answer.begin() + read, answer.end()));
  CHECK(part.log_probabilities.size() == answer.size());
  double first = 0;
  for (int64_t i = 0; i < read; ++i) first += double{part.log_probabilities[static_cast<size_t>(i)]};
  CHECK(first + rest.sum() == doctest::Approx(all.sum()).epsilon(1e-3));
}

TEST_CASE("a forced answer reads the compressed cache" * doctest::test_suite("long")) {
  const auto perplexity = [](int32_t bits, float keep) {
    ocellus_limits limits = board_limits(4, 200);
    limits.cache.kv_bits = bits;
    limits.cache.keep = keep;
    test::set_text(limits.cache.evict, "snapkv");
    limits.cache.compress_at = OCELLUS_COMPRESS_BEFORE_SUFFIX;
    const std::unique_ptr<Engine> engine = test::make_bundled_engine(limits);
    Session& session = open_session(*engine);
    double sum = 0;
    int64_t count = 0;
    for (const int id : {12, 13, 15, 16}) {
      session.reset();
      test::add_question(session, golden(id));
      const std::vector<TokenId> answer = golden_answer(id);
      sum += scored_well(session, answer).sum();
      count += std::ssize(answer);
    }
    return std::exp(-sum / static_cast<double>(count));
  };
  const double exact = perplexity(16, 1), bytes = perplexity(8, 1), bit = perplexity(1, 1),
               tenth = perplexity(16, 0.1f);
  MESSAGE("perplexity: f16 " << exact << ", 8 bits " << bytes << ", 1 bit " << bit << ", a tenth " << tenth);
  CHECK(exact < 1.1);
  CHECK(std::abs(bytes - exact) < 0.02);
  CHECK(bit > exact + 0.01);
  CHECK(tenth > exact + 0.01);
}

TEST_CASE("a rolling context makes room for what it is to say, but not for more than half of its text") {
  const std::unique_ptr<Engine> engine = test::make_bundled_engine(board_limits(1, 160));
  Session& session = open_session(*engine);
  REQUIRE(set_rolling(session, 1, 16).ok());
  for (int turn = 0; turn < 6; ++turn) {
    test::add_question(session, golden(1));
    scored_well(session, golden_answer(1));
  }
  CHECK(session.next_position() > 6 * 64);
  test::add_question(session, golden(1));
  CHECK(score_of(session, std::vector<TokenId>(120, 300)).status.code() == Code::kFull);
  CHECK(scored_well(session, golden_answer(1)).sum() > -2);
}

TEST_CASE("choices have the probabilities that all logits give them, token by token" * doctest::test_suite("long")) {
  check_choices(test::bundled_model(), board_limits(1, 200),
                [](Session& session) { test::add_question(session, golden(1)); });
}

TEST_CASE("so they have in every family" * doctest::test_suite("long")) {
  test::for_each_tiny_family([](const Model& model) {
    check_choices(model, test::family_limits(1), [](Session& session) {
      test::add_picture(session, test::wide_picture());
      test::add_words(session, "and say what it is");
    });
  });
}

TEST_CASE("a sampled conversation goes on after choices as if none had been scored" * doctest::test_suite("long")) {
  ocellus_generate_params params = default_params(30);
  params.temperature = 1.5f;
  params.frequency_penalty = 0.3f;
  ocellus_limits limits = board_limits(2, 200);
  limits.cache.kv_bits = 2;
  limits.cache.keep = 0.5f;
  test::set_text(limits.cache.evict, "snapkv");
  for (const int32_t rolling : {0, 1}) {
    const auto engine = test::make_bundled_engine(limits);
    Session& session = open_session(*engine);
    std::vector<test::Answer> plain;
    for (const bool scores : {false, true}) {
      session.reset();
      REQUIRE(set_rolling(session, rolling, 16).ok());
      for (size_t turn = 0; turn < (rolling > 0 ? 4 : 2); ++turn) {
        test::add_question(session, golden(1));
        if (scores) CHECK(score_texts(session).values == score_texts(session).values);
        plain.push_back(answer_of(session, params));
        if (scores) test::check_equal(plain.back(), plain[turn]);
      }
    }
  }
}

TEST_CASE("a model that always thinks scores choices after an empty thought, which does not count") {
  const auto engine = make_engine(test::thinking_model(), board_limits(1, 200));
  Session& session = open_session(*engine);
  test::add_question(session, golden(1));
  const double found = score_texts(session).values[2];
  REQUIRE(session.add_text("<think>\n\n</think>\n\n", true).ok());
  CHECK(found == doctest::Approx(exact_score(session, "yes")).epsilon(0.01));
}

TEST_CASE("choices that cannot be scored are refused, and nothing is lost") {
  const auto engine = test::make_bundled_engine(board_limits(1, 100));
  Session& session = open_session(*engine);
  CHECK(score_texts(session).status.code() == Code::kBadArgument);  // nothing was asked
  test::add_question(session, golden(1));
  const std::vector<double> before = score_texts(session).values;
  CHECK(score_texts(session, {}).status.code() == Code::kBadArgument);
  CHECK(score_texts(session, {"yes", ""}).status.code() == Code::kBadArgument);
  CHECK(score_texts(session, {std::string(OCELLUS_MOST_CHOICE_BYTES + 1, 'x')}).status.code() == Code::kBadArgument);
  CHECK(score_texts(session, {"yes", std::string(300, 'x')}).status.code() == Code::kFull);
  session.stop_signal().set_deadline(1);
  CHECK(score_texts(session).status.code() == Code::kDeadline);
  session.stop_signal().set_deadline(0);
  session.stop_signal().cancel();
  CHECK(session.acknowledge_cancel(score_texts(session).status).code() == Code::kCancelled);
  CHECK(score_texts(session).values == before);
  CHECK(answer_of(session, default_params(3)).text == " A large cyan");
  CHECK(score_texts(session).status.code() == Code::kBadArgument);  // the answer has begun
  ocellus_limits limits = board_limits(1, 100);
  test::set_text(limits.cache.evict, "h2o");
  limits.cache.keep = 0.5f;
  CHECK(score_texts(open_session(*test::make_bundled_engine(limits)), kChoices).status.code() == Code::kUnsupported);
}

TEST_CASE("tokens of an answer: the space before it, its end behind it") {
  const Model& model = test::bundled_model();
  Buffer<TokenId> tokens;
  REQUIRE(model.tokenize("A large cyan star.", {.answers = true}, &tokens).ok());
  CHECK(std::vector<TokenId>(tokens.begin(), tokens.end()) == golden_answer(1));
  Buffer<TokenId> plain, special;
  REQUIRE(model.tokenize("Hello<end_of_utterance>", {}, &plain).ok());
  REQUIRE(model.tokenize("Hello<end_of_utterance>", {.parse_special = true}, &special).ok());
  CHECK(plain.size() > special.size());
  int64_t count = 0;
  REQUIRE(model.count_tokens("Hello<end_of_utterance>", false, &count).ok());
  CHECK(count == plain.size());
  const SmallModel small(8);  // no template that is known
  Buffer<TokenId> raw;
  REQUIRE(small.model.tokenize("ab", {.starts = true, .answers = true}, &raw).ok());
  CHECK(raw.size() >= 2);
}

}  // namespace ocellus
