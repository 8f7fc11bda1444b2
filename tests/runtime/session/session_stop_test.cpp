// Sessions that are stopped: cancelled, out of time, out of room. What stays is what ocellus.h says stays.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/support/loaded_engine.h"
#include "tests/support/temporary_file.h"

namespace ocellus {
namespace {

using test::Answer;
using test::answer_of;
using test::board_limits;
using test::default_params;
using test::make_bundled_engine;
using test::open_session;

constexpr int64_t kMillisecond = 1'000'000;
constexpr double kPromptMs = 2000;  // far above one layer, far below a whole prompt on a loaded machine

const std::string kBoard = "images/115.png";
const std::string kQuestion = "<image>What is on the left?";
const std::string kAnswer = " A large cyan star.";

Status ask(Session& session) { return test::add_turn(session, kQuestion, {kBoard}); }

void check_answers(Session& session) {
  const Status added = ask(session);
  REQUIRE_MESSAGE(added.ok(), last_failure().sentence);
  const Answer answer = answer_of(session);
  REQUIRE_MESSAGE(answer.status.ok(), last_failure().sentence);
  CHECK(answer.text == kAnswer);
}

/// Cancels from another thread some time after `start` was called.
class Canceller {
 public:
  explicit Canceller(Session& session) : session_(session) {}
  ~Canceller() { wait(); }
  void start(double delay_ms) {
    thread_ = std::thread([this, delay_ms] {
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(delay_ms));
      cancelled_ns_ = now_ns();
      session_.stop_signal().cancel();
    });
  }
  void wait() {
    if (thread_.joinable()) thread_.join();
  }
  bool has_cancelled() const { return cancelled_ns_ != 0; }
  /// Milliseconds since the cancellation.
  double elapsed() const { return elapsed_ms(cancelled_ns_, now_ns()); }

 private:
  Session& session_;
  std::thread thread_;
  std::atomic<int64_t> cancelled_ns_{0};
};

/// Everything a call may not change if it fails.
struct Snapshot {
  int64_t position, text_slots, rows, used_bytes, waiting_rows;
  explicit Snapshot(Session& session)
      : position(session.next_position()),
        text_slots(session.cache().text_slots()),
        rows(session.cache().rows()),
        used_bytes(session.engine().memory().pools.used_bytes()),
        waiting_rows(session.prompt().holds_chunk() ? session.engine().memory().chunk.row_count : 0) {}
  bool operator==(const Snapshot&) const = default;
};

/// A prompt long enough to be interrupted in the middle: rows of text after a picture.
void add_long_prompt(Session& session, int64_t tokens) {
  REQUIRE(ask(session).ok());
  const std::vector<TokenId> filler(static_cast<size_t>(tokens), 297);
  REQUIRE_MESSAGE(session.add_tokens(filler.data(), tokens).ok(), last_failure().sentence);
}

/// The bundled text model with another context length written into its file.
test::GgufBuilder shortened_model(uint32_t context_length) {
  GgufFile file;
  REQUIRE_MESSAGE(file.open(test::bundled_pair().model.c_str()).ok(), last_failure().sentence);
  test::GgufBuilder builder(file);
  builder.remove("llama.context_length");
  builder.add_u32("llama.context_length", context_length);
  return builder;
}

}  // namespace

TEST_CASE("a cancelled image leaves the session as it was") {
  const std::unique_ptr<Engine> engine = make_bundled_engine(board_limits(24, 200));
  Session& session = open_session(*engine);
  const std::vector<uint8_t> board = test::board_bytes(kBoard);
  const auto add = [&] {
    const Status status = session.add_encoded_image(board.data(), static_cast<int64_t>(board.size()));
    return session.acknowledge_cancel(status);
  };
  REQUIRE(add().ok());
  const int64_t start = now_ns();
  REQUIRE(add().ok());
  const double whole_ms = elapsed_ms(start, now_ns());
  for (int round = 0; round < 4; ++round) {
    session.reset();
    REQUIRE(session.begin_turn().ok());
    Canceller canceller(session);
    canceller.start(whole_ms * (round + 0.5) / 4);
    Status status;
    Snapshot before(session);
    // The signal stays until a call has reported it, so one of these must.
    for (int i = 0; i < 24 && status.ok(); ++i) {
      before = Snapshot(session);
      status = add();
    }
    canceller.wait();
    REQUIRE(status.code() == Code::kCancelled);
    CHECK(canceller.elapsed() < kPromptMs);
    CHECK(Snapshot(session) == before);
  }
  session.reset();
  check_answers(session);
}

TEST_CASE("a cancelled prompt is forgotten, the conversation before it stays") {
  ocellus_limits limits = board_limits(3, 1100);
  for (const int32_t rows : {0, 1}) {  // all in one chunk, and in many that were read while adding
    CAPTURE(rows);
    limits.max_prompt_rows = rows;
    const std::unique_ptr<Engine> engine = make_bundled_engine(limits);
    Session& session = open_session(*engine);
    check_answers(session);
    const Snapshot after_first(session);
    add_long_prompt(session, 600);
    const int64_t start = now_ns();
    REQUIRE(answer_of(session, default_params(0)).status.ok());
    const double whole_ms = elapsed_ms(start, now_ns());

    session.reset();
    check_answers(session);
    add_long_prompt(session, 600);
    Canceller canceller(session);
    canceller.start(rows == 0 ? whole_ms / 8 : 0);
    // The little that waits would be read too soon to be caught, and a GPU reads all of it too soon.
    if (rows == 1 || engine->queue().on_cuda()) canceller.wait();
    const Answer cancelled = answer_of(session, default_params(1 << 20));
    canceller.wait();
    CHECK(canceller.elapsed() < kPromptMs);
    CHECK(cancelled.status.code() == Code::kCancelled);
    CHECK(cancelled.stats.stop == OCELLUS_STOP_CANCELLED);
    CHECK(cancelled.stats.generated_tokens == 0);
    CHECK(Snapshot(session) == after_first);
    CHECK(std::string(last_failure().sentence).find("cancelled") != std::string::npos);
    // The next turn is a later turn of the same conversation, as if nothing had been in between.
    check_answers(session);
    CHECK(session.cache().image_count() == 2);
  }
}

TEST_CASE("a conversation that was cancelled in its first prompt starts anew") {
  ocellus_limits limits = board_limits(2, 400);
  limits.max_prompt_rows = 1;
  const std::unique_ptr<Engine> engine = make_bundled_engine(limits);
  Session& session = open_session(*engine);
  REQUIRE(ask(session).ok());
  const Answer fresh = answer_of(session);
  session.reset();
  add_long_prompt(session, 200);
  CHECK(session.cache().rows() > 64);
  session.stop_signal().cancel();
  CHECK(answer_of(session).status.code() == Code::kCancelled);
  CHECK(session.next_position() == 0);
  CHECK(session.cache().rows() == 0);
  CHECK(engine->memory().pools.used_bytes() == 0);
  REQUIRE(ask(session).ok());
  const Answer again = answer_of(session);
  CHECK(again.text == kAnswer);
  CHECK(again.stats.logits_hash == fresh.stats.logits_hash);  // the same rows at the same positions
  CHECK(again.stats.prompt_tokens == fresh.stats.prompt_tokens);
}

TEST_CASE("a cancelled answer stays as far as it was delivered") {
  const std::unique_ptr<Engine> engine = make_bundled_engine(board_limits(2, 700));
  Session& session = open_session(*engine);
  REQUIRE(ask(session).ok());
  ocellus_generate_params params = default_params(1 << 20);
  params.ignore_end = 1;
  struct Delivery {
    Session* session;
    std::string text;
    int count = 0;
  } delivery{&session, "", 0};
  params.user = &delivery;
  params.on_text = [](void* user, const char* text, int32_t bytes) {
    auto* self = static_cast<Delivery*>(user);
    self->text.append(text, static_cast<size_t>(bytes));
    if (++self->count == 4) self->session->stop_signal().cancel();
    return 0;
  };
  const Answer cancelled = answer_of(session, params);
  CHECK(cancelled.status.code() == Code::kCancelled);
  CHECK(cancelled.stats.stop == OCELLUS_STOP_CANCELLED);
  CHECK(cancelled.stats.generated_tokens >= 4);
  CHECK(kAnswer.substr(0, delivery.text.size()) == delivery.text);
  CHECK(session.next_position() == session.cache().rows());
  CHECK(delivery.text + answer_of(session).text == kAnswer);

  // From another thread, at no particular layer.
  session.reset();
  REQUIRE(ask(session).ok());
  params.on_text = nullptr;
  Canceller canceller(session);
  canceller.start(300);
  Answer answer;
  for (int i = 0; i < 100 && answer.status.ok(); ++i) {
    if (answer.stats.stop == OCELLUS_STOP_FULL) session.reset();
    if (session.next_position() == 0) answer.status = session.acknowledge_cancel(ask(session));
    if (canceller.has_cancelled()) session.stop_signal().cancel();  // it may have come before the prompt
    if (answer.status.ok()) answer = answer_of(session, params);
  }
  canceller.wait();
  CHECK(answer.status.code() == Code::kCancelled);
  CHECK(canceller.elapsed() < kPromptMs);
  session.reset();
  check_answers(session);
}

TEST_CASE("a cancellation that came before a prompt does nothing to it") {
  const std::unique_ptr<Engine> engine = make_bundled_engine(board_limits(2, 200));
  Session& session = open_session(*engine);
  session.stop_signal().cancel();  // the session has done nothing yet
  check_answers(session);
  session.stop_signal().cancel();  // too late for the answer, too soon for the next
  check_answers(session);
  session.stop_signal().cancel();
  session.reset();
  check_answers(session);
  session.stop_signal().cancel();
  const std::vector<TokenId> raw(5, 297);  // a prompt without a turn
  CHECK(session.add_tokens(raw.data(), 5).ok());
  REQUIRE(answer_of(session, default_params(1)).status.ok());
}

TEST_CASE("a cancellation between two calls ends the answer at hand, its slices and its prompt") {
  const std::unique_ptr<Engine> engine = make_bundled_engine(board_limits(2, 200));
  Session& session = open_session(*engine);
  REQUIRE(session.begin_turn().ok());
  session.stop_signal().cancel();
  CHECK(session.acknowledge_cancel(test::add_board(session, kBoard)).code() == Code::kCancelled);
  session.reset();

  // A conversation that is given as a whole is one prompt, however many turns it has.
  REQUIRE(ask(session).ok());
  session.stop_signal().cancel();
  CHECK(session.acknowledge_cancel(session.begin_turn()).code() == Code::kCancelled);
  session.reset();

  REQUIRE(ask(session).ok());
  REQUIRE(answer_of(session, default_params(1)).status.ok());
  session.stop_signal().cancel();
  CHECK(answer_of(session, default_params(1)).status.code() == Code::kCancelled);
  CHECK(answer_of(session, default_params(1)).status.ok());  // once
}

TEST_CASE("a thread that tells of a stop before it cancels ends the work at any moment, and no later work") {
  const std::unique_ptr<Engine> engine = make_bundled_engine(board_limits(1, 400));
  Session& session = open_session(*engine);
  ocellus_generate_params params = default_params(1 << 20);
  params.ignore_end = 1;
  params.on_text = [](void* user, const char*, int32_t) {  // no answer ends before the cancellation has come
    auto* other = static_cast<std::thread*>(user);
    if (other->joinable()) other->join();
    return 0;
  };
  for (int32_t round = 0; round < 100; ++round) {
    CAPTURE(round);
    std::atomic<bool> stops{false};
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(10 * round));
      stops = true;
      session.stop_signal().cancel();
    });
    params.user = &other;
    session.reset();
    Status status = session.acknowledge_cancel(session.begin_turn());
    if (status.ok() && stops) status = Status(Code::kCancelled);
    if (status.ok()) status = session.acknowledge_cancel(session.add_text("Describe this image.", false));
    if (status.ok()) status = session.acknowledge_cancel(session.end_turn());
    if (status.ok()) status = answer_of(session, params).status;
    if (other.joinable()) other.join();
    CHECK(status.code() == Code::kCancelled);
    session.reset();  // the cancellation may not have been needed any more
    CHECK(session.begin_turn().ok());
  }
}

TEST_CASE("one cancelled session leaves the others of a batch to finish") {
  ocellus_limits limits = board_limits(1, 120);
  limits.max_sessions = 3;
  const std::unique_ptr<Engine> engine = make_bundled_engine(limits);
  const std::vector<Session*> sessions = {&open_session(*engine), &open_session(*engine), &open_session(*engine)};
  for (Session* session : sessions) REQUIRE(ask(*session).ok());
  sessions[1]->stop_signal().cancel();
  const std::vector<Answer> answers = test::batch_answers(sessions, default_params());
  CHECK(answers[0].status.code() == Code::kCancelled);
  CHECK(last_failure().code == Code::kCancelled);
  CHECK(answers[1].stats.stop == OCELLUS_STOP_CANCELLED);
  CHECK(answers[1].text.empty());
  CHECK(sessions[1]->cache().rows() == 0);
  for (const size_t i : {size_t{0}, size_t{2}}) {
    CHECK(answers[i].stats.stop == OCELLUS_STOP_END_TOKEN);
    CHECK(answers[i].text == kAnswer);
  }
  check_answers(*sessions[1]);
}

TEST_CASE("rows that another session's add could not read are reported to their owner") {
  ocellus_limits limits = board_limits(1, 120);
  limits.max_sessions = 2;
  const std::unique_ptr<Engine> engine = make_bundled_engine(limits);
  Session& a = open_session(*engine);
  Session& b = open_session(*engine);
  REQUIRE(ask(a).ok());
  a.stop_signal().cancel();
  check_answers(b);  // takes the chunk; a's rows cannot be read
  CHECK(a.acknowledge_cancel(a.begin_turn()).code() == Code::kCancelled);
  CHECK(std::string(last_failure().sentence).find("was dropped") != std::string::npos);
  CHECK(a.next_position() == 0);
  check_answers(a);
}

TEST_CASE("deadlines that have passed or pass soon are kept") {
  const std::unique_ptr<Engine> engine = make_bundled_engine(board_limits(2, 1200));
  Session& session = open_session(*engine);
  session.stop_signal().set_deadline(now_ns() - 1);
  CHECK(session.begin_turn().code() == Code::kDeadline);
  CHECK(test::add_board(session, kBoard).code() == Code::kDeadline);
  CHECK(Snapshot(session).waiting_rows == 0);
  session.stop_signal().set_deadline(0);
  check_answers(session);
  const Snapshot after_first(session);

  ocellus_generate_params params = default_params(1 << 20);
  params.ignore_end = 1;
  for (const int64_t deadline : {now_ns() - 1, now_ns() + 30 * kMillisecond}) {
    add_long_prompt(session, 700);
    params.deadline_ns = std::max<int64_t>(deadline, 1);
    const int64_t start = now_ns();
    const Answer late = answer_of(session, params);
    CHECK(elapsed_ms(start, now_ns()) < kPromptMs);
    CHECK(late.status.code() == Code::kDeadline);
    CHECK(late.stats.stop == OCELLUS_STOP_DEADLINE);
    if (late.stats.generated_tokens == 0) CHECK(Snapshot(session) == after_first);
    if (late.stats.generated_tokens > 0) session.reset();
    if (session.next_position() == 0) check_answers(session);
  }
  CHECK(session.stop_signal().deadline_ns() == 0);  // the parameter's deadline was for that call only
  session.reset();
  // While tokens are generated.
  REQUIRE(ask(session).ok());
  REQUIRE(answer_of(session, default_params(0)).status.ok());
  params.deadline_ns = now_ns() + 50 * kMillisecond;
  const Answer cut = answer_of(session, params);
  CHECK(cut.status.code() == Code::kDeadline);
  CHECK(cut.stats.stop == OCELLUS_STOP_DEADLINE);
  CHECK(session.next_position() == session.cache().rows());
}

TEST_CASE("too many images and too much text are refused, and nothing is lost") {
  const std::unique_ptr<Engine> engine = make_bundled_engine(board_limits(1, 64));
  Session& session = open_session(*engine);
  REQUIRE(ask(session).ok());
  const Snapshot before(session);
  CHECK(test::add_board(session, kBoard).code() == Code::kFull);
  CHECK(std::string(last_failure().sentence).find("plan more images") != std::string::npos);
  CHECK(session.add_text(std::string(300, 'x'), false).code() == Code::kFull);
  CHECK(std::string(last_failure().sentence).find("plan more text tokens") != std::string::npos);
  CHECK(session.add_text(std::string(100000, 'x'), false).code() == Code::kFull);
  CHECK(std::string(last_failure().sentence).find("100000") != std::string::npos);
  const std::vector<TokenId> filler(100, 297);
  CHECK(session.add_tokens(filler.data(), 100).code() == Code::kFull);
  const std::vector<uint8_t> damaged(100, 0x89);
  CHECK(session.add_encoded_image(damaged.data(), 100).code() != Code::kOk);
  CHECK(Snapshot(session) == before);
  CHECK(answer_of(session).text == kAnswer);

  // Text until nothing fits; the answer ends where the plan ends.
  ocellus_generate_params params = default_params(1 << 20);
  params.ignore_end = 1;
  REQUIRE(session.begin_turn().ok());
  REQUIRE(session.end_turn().ok());
  CHECK(answer_of(session, params).stats.stop == OCELLUS_STOP_FULL);
  CHECK(session.cache().text_slots() == engine->shape().session.pages * kPageSlots);
  CHECK(answer_of(session, params).status.code() == Code::kFull);
  CHECK(session.begin_turn().code() == Code::kFull);
  session.reset();
  check_answers(session);
}

TEST_CASE("a damaged picture leaves the prompt around it as it was") {
  const std::unique_ptr<Engine> engine = make_bundled_engine(board_limits(2, 120));
  Session& session = open_session(*engine);
  REQUIRE(session.begin_turn().ok());
  std::vector<uint8_t> bytes = test::board_bytes(kBoard);
  bytes.resize(bytes.size() / 2);
  const Snapshot before(session);
  CHECK(session.add_encoded_image(bytes.data(), static_cast<int64_t>(bytes.size())).code() == Code::kBadImage);
  CHECK(Snapshot(session) == before);
  REQUIRE(test::add_board(session, kBoard).ok());
  REQUIRE(session.add_text("What is on the left?", false).ok());
  REQUIRE(session.end_turn().ok());
  CHECK(answer_of(session).text == kAnswer);
}

TEST_CASE("the model's context is a limit of its own") {
  constexpr int32_t kContext = 200;
  const test::TemporaryFile file(shortened_model(kContext));
  Model model;
  REQUIRE_MESSAGE(model.open(file.c_str(), nullptr).ok(), last_failure().sentence);
  REQUIRE(model.text().context_length == kContext);
  const std::unique_ptr<Engine> engine = test::make_engine(model, board_limits(0, kContext + 100));
  Session& session = open_session(*engine);
  const std::vector<TokenId> filler(static_cast<size_t>(kContext) + 1, 297);
  CHECK(session.add_tokens(filler.data(), kContext + 1).code() == Code::kFull);
  CHECK(std::string(last_failure().sentence).find("position") != std::string::npos);
  REQUIRE(session.add_tokens(filler.data(), kContext - 2).ok());
  ocellus_generate_params params = default_params(100);
  params.ignore_end = 1;
  const Answer answer = answer_of(session, params);
  CHECK(answer.status.ok());
  CHECK(answer.stats.stop == OCELLUS_STOP_FULL);
  CHECK(answer.stats.generated_tokens == 3);  // the last needs no position
  CHECK(session.next_position() == kContext);
}

}  // namespace ocellus
