// Scheduling of `serve`, and sessions that fail to reopen, which are not lost forever.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "apps/serve/chat_scheduler.h"
#include "tests/support/http_client.h"

namespace ocellus::app {
namespace {

// A request without a server.
class FakeExchange : public HttpExchange {
 public:
  explicit FakeExchange(const std::string& text, int max_tokens = 4, std::string* pieces = nullptr,
                        const nlohmann::json& more = nlohmann::json::object())
      : pieces_(pieces) {
    nlohmann::json body = {{"messages", {{{"role", "user"}, {"content", text}}}},
                           {"max_tokens", max_tokens},
                           {"stream", pieces != nullptr},
                           {"ignore_eos", true}};
    body.update(more);
    request_.body = body.dump();
    name_ = text[0];
  }
  const HttpRequest& request() const override { return request_; }
  void respond(HttpResponse response) override { status = response.status; }
  void begin_stream(HttpResponse /*head*/) override {}
  bool write(std::string_view /*bytes*/) override {
    *pieces_ += name_;  // by the engine's thread
    return true;
  }
  void end() override { status = 200; }
  bool is_open() const override { return true; }
  HttpBody take_body() override { return {std::move(request_.body), nullptr, 0}; }

  std::atomic<int> status = 0;  // HTTP status of the answer; 0: none yet

 private:
  HttpRequest request_;
  std::string* pieces_;  // of streamed answers: the first letter of the question each
  char name_;
};

constexpr Endpoint kChat = {"POST", "/v1/chat/completions", read_chat, true};

struct Served {
  explicit Served(int32_t sessions = 1, int32_t forms = 0) {
    const std::string folder = std::string(OCELLUS_SOURCE_DIR) + "/apps/models/";
    model = *Model::open((folder + "shapeboard-34m-q8_0.gguf").c_str(),
                         (folder + "mmproj-shapeboard-34m-q8_0.gguf").c_str());
    ocellus_engine_config config = engine_config();
    config.limits.device = OCELLUS_DEVICE_CPU;
    config.limits.max_sessions = sessions;
    config.limits.max_constraints = forms;
    engine = *Engine::create(model, config);
    options.params = generate_params();
    options.names.listed = {"model"};
  }
  // A scheduler with this many sessions.
  ChatScheduler start(int32_t count = 1) {
    std::vector<Session> sessions;
    for (int32_t i = 0; i < count; ++i) REQUIRE(sessions.emplace_back(*Session::open(engine)));
    handle = sessions.front().get();
    return ChatScheduler(model.get(), std::move(sessions), engine, nullptr, options, &metrics, open);
  }
  Model model;
  Engine engine;
  ServeOptions options;
  ChatScheduler::OpenSession open = Session::open;
  ServeMetrics metrics{0};
  ocellus_session* handle = nullptr;  // of the first session
};

}  // namespace

TEST_SUITE("http scheduler") {
  TEST_CASE("a session that cannot be opened again is tried until it can, and requests wait for it") {
    Served served;
    std::atomic<int> tries = 0;
    served.open = [&tries](const Engine& on) { return ++tries <= 5 ? Result<Session>(OCELLUS_IO) : Session::open(on); };
    ChatScheduler scheduler = served.start();
    for (int i = 0; i < 3; ++i) {
      const auto exchange = std::make_shared<FakeExchange>("Hello " + std::to_string(i));
      scheduler.submit(exchange, kChat);
      CHECK(wait_for([&] { return exchange->status == 200; }, 20'000));
    }
    CHECK(tries > 5);
    scheduler.stop();
  }

  TEST_CASE("a client that leaves as its answer ends does not cancel the next one's form") {
    Served served(1, 1);
    served.options.forms = 1;
    ChatScheduler scheduler = served.start();
    for (int i = 0; i < 3; ++i) {
      ocellus_session_cancel(served.handle);  // no answer has it now
      const nlohmann::json form = {{"ignore_eos", false},
                                   {"structured_outputs", {{"regex", "a{" + std::to_string(i + 1) + "}"}}}};
      const auto exchange = std::make_shared<FakeExchange>("Hello", 8, nullptr, form);
      scheduler.submit(exchange, kChat);
      CHECK(wait_for([&] { return exchange->status != 0; }, 20'000));
      CHECK(exchange->status == 200);
    }
    scheduler.stop();
  }

  TEST_CASE("a request that arrived ends at its deadline, also if it is not read yet") {
    static std::atomic<int> begun = 0;
    static std::atomic<bool> may_end = false;
    static constexpr Endpoint kSlow = {"POST", "/slow",
                                       [](const ServeContext&, const HttpRequest&, ChatJob*) {
                                         ++begun;
                                         while (!may_end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
                                         throw RequestError(400, "It was read.");
                                       },
                                       false};
    Served served;
    served.options.deadline_s = 1;
    ChatScheduler scheduler = served.start();
    const auto first = std::make_shared<FakeExchange>("A"), second = std::make_shared<FakeExchange>("B");
    scheduler.submit(first, kSlow);
    CHECK(wait_for([] { return begun == 1; }, 5000));
    scheduler.submit(second, kSlow);
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    may_end = true;
    CHECK(wait_for([&] { return first->status == 400 && second->status == 504; }, 5000));
    CHECK(begun == 1);
    scheduler.stop();
  }

  TEST_CASE("a request joins the answers under way instead of waiting for their end") {
    Served served(2);
    std::atomic<bool> are_there = false;
    served.options.enter = [&] { are_there.wait(false); };
    ChatScheduler scheduler = served.start(2);
    std::string pieces;
    const auto first = std::make_shared<FakeExchange>("A question", 12, &pieces);
    const auto next = std::make_shared<FakeExchange>("B question", 12, &pieces);
    scheduler.submit(first, kChat);
    scheduler.submit(next, kChat);
    are_there = true;
    are_there.notify_one();
    CHECK(wait_for([&] { return first->status == 200 && next->status == 200; }, 20'000));
    scheduler.stop();
    CHECK_MESSAGE(pieces.find('B') < pieces.rfind('A'), pieces);
  }
}

}  // namespace ocellus::app
