// Sessions: the same answer however the work is cut up, and conversations that go on.
#include "runtime/session/session.h"

#include <doctest/doctest.h>

#include "tests/support/loaded_engine.h"

namespace ocellus {
namespace {

using test::Answer;
using test::answer_golden;
using test::answer_of;
using test::board_limits;
using test::check_equal;
using test::default_params;
using test::golden;
using test::make_engine;
using test::open_session;

std::string joined(const std::vector<std::string>& pieces) {
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  return text;
}

}  // namespace

TEST_CASE("the answer does not depend on how the prompt is cut into chunks") {
  ocellus_limits limits = board_limits(4, 200);
  // The bundled model, as a few layers of it repeat themselves: a GPU's rounding then chooses the words.
  const std::unique_ptr<Engine> whole = make_engine(test::bundled_model(), limits);
  limits.max_prompt_rows = 1;  // raised to what one image takes
  const std::unique_ptr<Engine> cut = make_engine(test::bundled_model(), limits);
  REQUIRE(cut->shape().prompt_rows < 100);
  Session& in_one = open_session(*whole);
  Session& in_many = open_session(*cut);
  for (const int id : {0, 13, 16}) {
    CAPTURE(id);
    in_one.reset();
    in_many.reset();
    test::add_question(in_one, golden(id));
    test::add_question(in_many, golden(id));
    CHECK(in_one.next_position() == 0);
    if (id > 0) CHECK(in_many.next_position() > 0);  // read while adding
    const std::vector<float> expected = test::first_logits(in_one);
    const double error = test::relative_error(test::first_logits(in_many).data(), expected);
    MESSAGE("golden " << id << ": relative difference of the logits " << error);
    CHECK(error < 2e-2);
    CHECK(in_one.next_position() == in_many.next_position());
    CHECK(in_one.cache().text_slots() == in_many.cache().text_slots());
    CHECK(in_one.cache().rows() == in_many.cache().rows());
    CHECK(answer_of(in_one).text == answer_of(in_many).text);
  }
}

TEST_CASE("the number of threads changes no bit") {
  std::vector<Answer> answers;
  for (const int32_t threads : {1, 2, 3}) {
    ocellus_limits limits = board_limits(4, 200);
    limits.thread_count = threads;
    const std::unique_ptr<Engine> engine = test::make_bundled_engine(limits);
    answers.push_back(answer_golden(open_session(*engine), 15));
  }
  CHECK(answers[0].text == " Four.");
  check_equal(answers[0], answers[1]);
  check_equal(answers[0], answers[2]);
}

TEST_CASE("sessions that are decoded together answer as they do alone") {
  ocellus_limits limits = board_limits(1, 120);
  limits.max_sessions = 3;
  const std::unique_ptr<Engine> engine = test::make_bundled_engine(limits);
  const std::vector<Session*> sessions = {&open_session(*engine), &open_session(*engine), &open_session(*engine)};
  const std::vector<int> ids = {0, 1, 5};
  std::vector<Answer> alone;
  for (const int id : ids) {
    sessions[0]->reset();
    alone.push_back(answer_golden(*sessions[0], id));
  }
  for (const size_t count : {size_t{2}, size_t{3}}) {
    for (Session* session : sessions) session->reset();
    for (size_t i = 0; i < count; ++i) test::add_question(*sessions[i], golden(ids[i]));
    const std::vector<Answer> together =
        test::batch_answers({sessions.begin(), sessions.begin() + static_cast<long>(count)}, default_params());
    for (size_t i = 0; i < count; ++i) {
      CAPTURE(i);
      CHECK(together[i].status.ok());
      CHECK(together[i].text == alone[i].text);
      CHECK(together[i].stats.generated_tokens == alone[i].stats.generated_tokens);
      CHECK(together[i].stats.prompt_tokens == alone[i].stats.prompt_tokens);
      CHECK(together[i].stats.kv_bytes == alone[i].stats.kv_bytes);
    }
  }
}

TEST_CASE("adds of two sessions may interleave") {
  ocellus_limits limits = board_limits(1, 120);
  limits.max_sessions = 2;
  const std::unique_ptr<Engine> engine = test::make_bundled_engine(limits);
  Session& a = open_session(*engine);
  Session& b = open_session(*engine);
  const std::string alone_a = answer_golden(a, 1).text;
  const std::string alone_b = answer_golden(b, 6).text;
  a.reset();
  b.reset();
  // Every add takes the shared chunk from the other session, whose rows are read first.
  REQUIRE(a.begin_turn().ok());
  REQUIRE(b.begin_turn().ok());
  REQUIRE(test::add_board(a, golden(1).images[0]).ok());
  REQUIRE(test::add_board(b, golden(6).images[0]).ok());
  REQUIRE(a.add_text("What is on the left?", false).ok());
  REQUIRE(b.add_text("What color is the background?", false).ok());
  REQUIRE(a.end_turn().ok());
  REQUIRE(b.end_turn().ok());
  CHECK(answer_of(a).text == alone_a);
  CHECK(answer_of(b).text == alone_b);
}

TEST_CASE("a reset session answers as a fresh one") {
  const std::unique_ptr<Engine> engine = make_engine(board_limits(1, 120));
  Session& session = open_session(*engine);
  const Answer first = answer_golden(session, 5);
  for (int round = 0; round < 3; ++round) {
    session.reset();
    CHECK(session.cache().rows() == 0);
    CHECK(engine->memory().pools.used_bytes() == 0);
    if (round == 1) REQUIRE(session.add_text("half a prompt, then a reset", false).ok());
    if (round == 1) session.reset();
    check_equal(answer_golden(session, 5), first);
  }
  session.close();
  check_equal(answer_golden(open_session(*engine), 5), first);
}

TEST_CASE("a second turn reads the first answer, whichever way that was stopped") {
  const std::unique_ptr<Engine> engine = test::make_bundled_engine(board_limits(2, 200));
  Session& session = open_session(*engine);
  answer_golden(session, 0);
  const int64_t after_answer = session.next_position();
  test::add_question(session, golden(1));
  const Answer second = answer_of(session);
  CHECK(second.text == " A large cyan star.");
  CHECK(second.stats.image_count == 2);
  CHECK(second.stats.image_tokens == 64);
  CHECK(session.next_position() > after_answer + 64);

  // Cut after as many tokens as the answer has, and then read on: the last token waits to be read, nothing is lost.
  session.reset();
  test::add_question(session, golden(0));
  const Answer whole = answer_of(session);
  session.reset();
  test::add_question(session, golden(0));
  const Answer cut = answer_of(session, default_params(whole.stats.generated_tokens));
  CHECK(cut.stats.stop == OCELLUS_STOP_MAX_TOKENS);
  CHECK(cut.text == whole.text);
  CHECK(session.next_position() == after_answer - 1);
  test::add_question(session, golden(1));
  CHECK(answer_of(session).text == second.text);
  CHECK(session.cache().rows() == session.next_position());
}

TEST_CASE("generating again after max_tokens continues the same text") {
  const std::unique_ptr<Engine> engine = test::make_bundled_engine(board_limits(1, 200));
  Session& session = open_session(*engine);
  const Answer whole = answer_golden(session, 0);
  for (const int32_t step : {1, 7}) {
    session.reset();
    test::add_question(session, golden(0));
    std::string text;
    Answer part;
    do {
      part = answer_of(session, default_params(step));
      REQUIRE_MESSAGE(part.status.ok(), last_failure().sentence);
      text += part.text;
    } while (part.stats.stop == OCELLUS_STOP_MAX_TOKENS && text.size() < 1000);
    CHECK(part.stats.stop == OCELLUS_STOP_END_TOKEN);
    CHECK(text == whole.text);
  }
  // The answer ended: there is nothing to go on from, and saying so changes nothing.
  CHECK(answer_of(session).status.code() == Code::kBadArgument);
  CHECK(std::string(last_failure().sentence).find("nothing to answer") != std::string::npos);
  REQUIRE(test::add_turn(session, "What color is the background?", {}).ok());
  CHECK(answer_of(session).status.ok());
}

TEST_CASE("reading first and answering later gives the same answer") {
  const std::unique_ptr<Engine> engine = make_engine(board_limits(1, 120));
  Session& session = open_session(*engine);
  const Answer direct = answer_golden(session, 6);
  session.reset();
  test::add_question(session, golden(6));
  const Answer read = answer_of(session, default_params(0));
  CHECK(read.stats.stop == OCELLUS_STOP_MAX_TOKENS);
  CHECK(read.stats.generated_tokens == 0);
  CHECK(read.stats.prompt_tokens == direct.stats.prompt_tokens);
  check_equal(answer_of(session), direct);
}

TEST_CASE("a raw prompt of text and tokens equals the chat template") {
  const std::unique_ptr<Engine> engine = make_engine(board_limits(1, 120));
  Session& session = open_session(*engine);
  const Answer templated = answer_golden(session, 1);
  session.reset();
  REQUIRE(session.add_text("<|im_start|>User: ", true).ok());
  REQUIRE(test::add_board(session, golden(1).images[0]).ok());
  REQUIRE(session.add_text("What is on the left?", false).ok());
  REQUIRE(session.add_text("<end_of_utterance>\nAssistant:", true).ok());
  check_equal(answer_of(session), templated);

  // The same by token ids, around the picture and its delimiters.
  session.reset();
  const std::vector<TokenId> ids = golden(1).prompt_ids;
  REQUIRE(session.add_tokens(ids.data(), 4).ok());
  REQUIRE(test::add_board(session, golden(1).images[0]).ok());
  const size_t after = 4 + 3 + 64 + 1;
  REQUIRE(session.add_tokens(ids.data() + after, static_cast<int64_t>(ids.size() - after)).ok());
  check_equal(answer_of(session), templated);
}

TEST_CASE("streamed pieces are whole characters and join to the text; a callback can stop") {
  const std::unique_ptr<Engine> engine = test::make_bundled_engine(board_limits(1, 200));
  Session& session = open_session(*engine);
  const Answer whole = answer_golden(session, 0);
  CHECK(whole.pieces.size() > 10);
  CHECK(joined(whole.pieces) == whole.text);

  session.reset();
  test::add_question(session, golden(0));
  struct Stopper {
    std::string text;
    int left = 5;
  } stopper;
  ocellus_generate_params params = default_params();
  params.user = &stopper;
  params.on_text = [](void* user, const char* text, int32_t bytes) {
    auto* self = static_cast<Stopper*>(user);
    self->text.append(text, static_cast<size_t>(bytes));
    return --self->left == 0 ? 1 : 0;
  };
  const Answer stopped = answer_of(session, params);
  CHECK(stopped.status.ok());
  CHECK(stopped.stats.stop == OCELLUS_STOP_CALLBACK);
  CHECK(stopper.left == 0);
  CHECK(stopper.text + answer_of(session).text == whole.text);
}

TEST_CASE("a seed repeats a sampled answer, another seed gives another") {
  const std::unique_ptr<Engine> engine = make_engine(board_limits(1, 200));
  Session& session = open_session(*engine);
  ocellus_generate_params params = default_params(40);
  params.temperature = 2.0f;
  params.ignore_end = 1;
  const auto run = [&](uint64_t seed) {
    session.reset();
    params.seed = seed;
    test::add_question(session, golden(0));
    return answer_of(session, params).text;
  };
  const std::string text = run(1);
  CHECK(run(1) == text);
  CHECK(run(2) != text);
}

TEST_CASE("statistics add up") {
  const std::unique_ptr<Engine> engine = make_engine(board_limits(4, 200));
  Session& session = open_session(*engine);
  const Answer answer = answer_golden(session, 12);
  const ocellus_generate_stats& s = answer.stats;
  CHECK(s.image_count == 4);
  CHECK(s.image_tokens == 4 * 64);
  CHECK(s.prompt_tokens == static_cast<int32_t>(golden(12).prompt_ids.size()));
  CHECK(s.kv_bytes == session.cache().rows() * engine->shape().kv.slot_bytes());
  CHECK(s.kv_bytes_full == s.kv_bytes);
  CHECK(s.first_token_ms >= s.preprocess_ms + s.encode_ms + s.prefill_ms);
  for (const double part : {s.preprocess_ms, s.encode_ms, s.prefill_ms, s.decode_ms, s.token_median_ms})
    CHECK(part > 0);
  CHECK(s.token_p95_ms >= s.token_median_ms);
  REQUIRE(session.begin_turn().ok());
  REQUIRE(session.end_turn().ok());
  const ocellus_generate_stats next = answer_of(session, default_params(1)).stats;
  CHECK(next.image_count == 4);
  CHECK(next.image_tokens == 0);
  CHECK(next.encode_ms == 0);
}

}  // namespace ocellus
