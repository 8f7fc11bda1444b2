// What conversations begin with is read once: marks, and the way back to them.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "runtime/branches/roll/roll.h"
#include "tests/support/cache_texts.h"
#include "tests/support/tiny_families.h"

namespace ocellus {
namespace {

using test::Answer;
using test::answer_of;
using test::board_limits;
using test::default_params;
using test::make_engine;
using test::open_session;

constexpr char kSystem[] = "You watch a board with coloured shapes on it, and say what is there.";

void begin(Session& session) {
  REQUIRE_MESSAGE(session.add_system(kSystem).ok(), last_failure().sentence);
  REQUIRE_MESSAGE(session.begin_turn().ok(), last_failure().sentence);
}

Answer ask_about(Session& session, const std::string& image) {
  REQUIRE_MESSAGE(test::add_board(session, image).ok(), last_failure().sentence);
  REQUIRE(session.add_text("Describe the picture.", false).ok());
  REQUIRE(session.end_turn().ok());
  return answer_of(session);
}

}  // namespace

TEST_CASE("after a rewind the next picture is answered as if the beginning had been read again") {
  const auto engine = test::make_bundled_engine(board_limits(1, 200));
  Session& session = open_session(*engine);
  begin(session);
  REQUIRE_MESSAGE(session.mark().ok(), last_failure().sentence);
  const int64_t beginning = session.next_position();
  CHECK(beginning > 15);
  const Answer first = ask_about(session, "images/036.png");
  for (const std::string image : {"images/063.png", "images/098.png", "images/036.png"}) {
    REQUIRE(session.rewind());
    CHECK(session.next_position() == beginning);
    CHECK(session.cache().rows() == beginning);
    const Answer again = ask_about(session, image);
    CHECK(again.stats.image_count == 1);
    CHECK(again.stats.prompt_tokens == first.stats.prompt_tokens - beginning);
    if (image == "images/036.png") {
      CHECK(again.text == first.text);
      CHECK(again.stats.logits_hash == first.stats.logits_hash);
    }
  }
  const auto plain = test::make_bundled_engine(board_limits(1, 200));
  Session& other = open_session(*plain);
  begin(other);
  CHECK(ask_about(other, "images/036.png").text == first.text);
}

TEST_CASE("every family returns to its mark, or says that it cannot") {
  test::for_each_tiny_family([](const Model& model) {
    const auto engine = make_engine(model, test::family_limits());
    Session& session = open_session(*engine);
    test::add_words(session, "Look at this ");
    REQUIRE_MESSAGE(session.mark().ok(), last_failure().sentence);
    const auto read = [&] {
      test::add_picture(session, test::wide_picture());
      test::add_words(session, "and say what it is");
      std::vector<float> logits = test::first_logits(session);
      REQUIRE(answer_of(session, default_params(12)).status.ok());
      return logits;
    };
    const std::vector<float> first = read();
    const bool found = session.rewind();
    if (!model.text().has_windows()) CHECK(found);
    if (!found) {
      CHECK(session.next_position() == 0);
      test::add_words(session, "Look at this ");
      REQUIRE(session.mark().ok());
    }
    CHECK(read() == first);
  });
}

TEST_CASE("a sampled answer and its penalties are repeated after a rewind") {
  const auto engine = test::make_bundled_engine(board_limits(1, 200));
  Session& session = open_session(*engine);
  ocellus_generate_params params = default_params(80);
  params.temperature = 1.5f;
  params.repetition_penalty = 1.3f;
  params.ignore_end = 1;
  begin(session);
  REQUIRE(session.mark().ok());
  std::vector<Answer> answers;
  for (int round = 0; round < 3; ++round) {
    if (round > 0) REQUIRE(session.rewind());
    REQUIRE(session.add_text("Tell a story.", false).ok());
    REQUIRE(session.end_turn().ok());
    answers.push_back(answer_of(session, params));
  }
  test::check_equal(answers[1], answers[0]);
  test::check_equal(answers[2], answers[0]);
}

TEST_CASE("a prompt that fails returns to the mark, a reset drops it, and there may be none") {
  const auto engine = test::make_bundled_engine(board_limits(1, 120));
  Session& session = open_session(*engine);
  CHECK(!session.rewind());
  begin(session);
  REQUIRE(session.mark().ok());
  const int64_t beginning = session.next_position();
  CHECK(session.add_text(std::string(400, 'x') + " y z", false).code() == Code::kFull);
  REQUIRE(session.add_text("half", false).ok());
  session.stop_signal().cancel();
  CHECK(answer_of(session).status.code() == Code::kCancelled);
  session.stop_signal().acknowledge();
  CHECK(session.next_position() == beginning);
  REQUIRE(session.rewind());
  const Answer answer = ask_about(session, "images/036.png");
  CHECK(answer.status.ok());
  session.reset();
  CHECK(!session.rewind());

  // A later mark replaces the first: two turns are kept.
  begin(session);
  REQUIRE(session.mark().ok());
  CHECK(ask_about(session, "images/036.png").text == answer.text);
  REQUIRE(session.mark().ok());
  const int64_t turn = session.next_position();
  REQUIRE(session.begin_turn().ok());
  REQUIRE(session.add_text("And?", false).ok());
  REQUIRE(session.end_turn().ok());
  CHECK(answer_of(session, default_params(5)).status.ok());
  REQUIRE(session.rewind());
  CHECK(session.next_position() == turn);
}

TEST_CASE("a beginning that later rows change cannot be marked") {
  const struct {
    const char* evict;
    const char* scheme;
  } choices[] = {{"snapkv", ""}, {"streaming-llm", ""}, {"elastic", ""}, {"", "calibquant"}, {"", "kivi"}};
  for (const auto& choice : choices) {
    CAPTURE(std::string(choice.evict));
    CAPTURE(std::string(choice.scheme));
    ocellus_limits limits = board_limits(2, 120);
    test::set_text(limits.cache.evict, choice.evict);
    test::set_text(limits.cache.kv_scheme, choice.scheme);
    if (choice.evict[0] != '\0') limits.cache.keep = 0.5f;
    if (choice.scheme[0] != '\0') limits.cache.kv_bits = 2;
    const auto engine = make_engine(limits);
    CHECK(open_session(*engine).mark().code() == Code::kUnsupported);
  }
  const auto engine = make_engine(board_limits(2, 120));
  Session& session = open_session(*engine);
  REQUIRE(session.mark().ok());
  REQUIRE(set_rolling(session, 2, 4).ok());
  CHECK(session.mark().code() == Code::kUnsupported);
  CHECK(!session.rewind());
}

}  // namespace ocellus
