// Who is read next, who gets the next session, and who waits no longer where the line is full.
#include "apps/serve/waiting_line.h"

#include <doctest/doctest.h>

#include <map>
#include <string>

namespace ocellus::app {
namespace {

class Waiting : public HttpExchange {
 public:
  explicit Waiting(const std::string& address, const std::string& key) {
    request_.address = request_.client = address;
    request_.user = key;
  }
  const HttpRequest& request() const override { return request_; }
  void respond(HttpResponse /*response*/) override {}
  void begin_stream(HttpResponse /*head*/) override {}
  bool write(std::string_view /*bytes*/) override { return true; }
  void end() override {}
  bool is_open() const override { return true; }
  HttpBody take_body() override { return {}; }

 private:
  HttpRequest request_;
};

constexpr Endpoint kChat = {"POST", "/v1/chat/completions", read_chat, true};

WaitingLine::Job make_job(const std::string& address, const std::string& key = "") {
  return std::make_shared<ChatJob>(std::make_shared<Waiting>(address, key), kChat, 1'000'000'000, "");
}

}  // namespace

TEST_SUITE("waiting line") {
  TEST_CASE("where it is full, the newest request of the client with the most goes") {
    WaitingLine line;
    std::vector<WaitingLine::Job> of_a;
    for (int i = 0; i < 4; ++i) of_a.push_back(make_job("10.0.0.1", "a"));
    line.add_read(of_a[0]);
    line.add_arrived(of_a[1]);
    line.add_arrived(make_job("10.0.0.1", "b"));
    line.add_read(of_a[2]);
    line.add_arrived(of_a[3]);
    CHECK(line.take_for("key of a") == nullptr);  // it would have the most
    CHECK(line.take_for("key of c") == of_a[3]);
    CHECK(line.take_for("key of b") == of_a[2]);
    CHECK(line.take_for("key of b") == nullptr);
    CHECK(line.take_for("key of c") == of_a[1]);
    CHECK(line.take_for("key of c") == nullptr);
    CHECK(line.size() == 2);
  }

  TEST_CASE("one user of many loses no place to others, whatever they send") {
    WaitingLine line;
    std::map<std::string, int> refused;
    constexpr int64_t kPlaces = 8;
    for (int i = 0; i < 400; ++i) {
      const WaitingLine::Job job = make_job("10.0.0." + std::to_string(i % 40 == 0 ? 9 : i % 3));
      WaitingLine::Job other = line.size() < kPlaces ? nullptr : line.take_for(job->door);
      if (line.size() < kPlaces) line.add_arrived(job);
      if (other == nullptr && line.size() == kPlaces) other = job;
      if (i >= kPlaces) ++refused[other->door];
      if (i % 40 == 20) (void)line.take_if([](const auto& one) { return one->door == "10.0.0.9"; });
    }
    CHECK(refused.count("10.0.0.9") == 0);
    CHECK(refused["10.0.0.0"] > 50);
  }

  TEST_CASE("clients take turns at being read and at sessions, and users of one address take turns within it") {
    WaitingLine line;
    for (int i = 0; i < 3; ++i) line.add_arrived(make_job("a"));
    line.add_arrived(make_job("b"));
    std::string order;
    while (line.has_arrived()) order += line.take_arrived()->door;
    CHECK(order == "abaa");
    const auto wait = [&](const std::string& address, const std::string& user) {
      const WaitingLine::Job job = make_job(address);
      job->client = user;
      line.add_read(job);
    };
    for (const char* user : {"a1", "a1", "a2", "a3", "a4"}) wait("a", user);
    wait("b", "b");
    wait("b", "b");
    order.clear();
    std::vector<WaitingLine::Job> running;
    while (line.has_read()) {
      running = {line.take_read(running)};
      order += running[0]->client + " ";
    }
    CHECK(order == "a1 b a2 b a3 a4 a1 ");
  }
}

}  // namespace ocellus::app
