// The HTTP server's answers to well-behaved clients.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "apps/base/failure.h"
#include "apps/http/http_access.h"
#include "tests/apps/http/echo_server.h"

namespace ocellus::app {

using std::chrono::milliseconds;

TEST_SUITE("http") {
  TEST_CASE("requests are answered with the headers that all responses have") {
    EchoServer echo;
    const HttpReply hello = fetch(echo.port(), "GET", "/hello?name=a%20b");
    CHECK(hello.status == 200);
    CHECK(hello.body == "hello a b");
    CHECK(hello.headers.at("x-content-type-options") == "nosniff");
    CHECK(hello.headers.at("referrer-policy") == "no-referrer");
    CHECK(hello.headers.at("cache-control") == "no-store");
    const std::string body(100'000, 'x');
    CHECK(fetch(echo.port(), "POST", "/echo", body).body == body);
    CHECK(echo.server.urls() == std::vector{"http://127.0.0.1:" + std::to_string(echo.port())});
  }

  TEST_CASE("a connection is kept for several requests, and bodies may come in chunks") {
    EchoServer echo;
    RawClient client(echo.port());
    for (int i = 0; i < 3; ++i) {
      REQUIRE(client.send("GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n"));
      CHECK(client.read_reply().status == 200);
    }
    REQUIRE(
        client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n"));
    CHECK(client.read_reply().body == "abcdefg");
    CHECK(echo.server.counts().requests == 4);
    CHECK(echo.server.counts().accepted == 1);
  }

  TEST_CASE("HEAD is answered as GET, without a body") {
    EchoServer echo;
    const HttpReply reply = fetch(echo.port(), "HEAD", "/hello");
    CHECK(reply.status == 200);
    CHECK(reply.body.empty());
  }

  TEST_CASE("unknown paths get 404, other methods 405 with those allowed, both as JSON") {
    EchoServer echo;
    const HttpReply unknown = fetch(echo.port(), "GET", "/nothing");
    CHECK(unknown.status == 404);
    CHECK(error_code(unknown) == "not_found");
    const HttpReply other = fetch(echo.port(), "DELETE", "/hello");
    CHECK(other.status == 405);
    CHECK(other.headers.at("allow") == "GET, HEAD");
    CHECK(fetch(echo.port(), "GET", "/echo").headers.at("allow") == "POST");
    CHECK(fetch(echo.port(), "PUT", "/hello", "a body").status == 405);
  }

  TEST_CASE("a path that ends in /* matches all below it, and exact paths go first") {
    HttpServer server(on_free_port());
    server.handle("GET", "/a/*", [](const auto& e) { e->respond({.body = "below " + e->request().path}); });
    server.handle("GET", "/a/b", [](const auto& e) { e->respond({.body = "exact"}); });
    server.start();
    CHECK(fetch(server.port(), "GET", "/a/x/y").body == "below /a/x/y");
    CHECK(fetch(server.port(), "GET", "/a/b").body == "exact");
    CHECK(fetch(server.port(), "GET", "/a").status == 404);
    CHECK(fetch(server.port(), "GET", "/ab").status == 404);
  }

  TEST_CASE("an answer may come later and from another thread, while others are served") {
    HttpServer server(on_free_port());
    add_echo(&server);
    std::shared_ptr<HttpExchange> late;
    std::atomic<bool> has_come = false;
    server.handle("GET", "/late", [&](auto exchange) {
      late = std::move(exchange);
      has_come = true;
    });
    server.start();
    RawClient client(server.port());
    REQUIRE(client.send("GET /late HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    REQUIRE(wait_for([&] { return has_come.load(); }, 2000));
    CHECK(fetch(server.port(), "GET", "/hello").status == 200);
    CHECK(late->is_open());
    late->respond({.status = 201, .body = "at last"});
    const HttpReply reply = client.read_reply();
    CHECK(reply.status == 201);
    CHECK(reply.body == "at last");
    // The connection goes on, and the exchange is over.
    REQUIRE(client.send("GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    CHECK(client.read_reply().status == 200);
    CHECK_FALSE(late->is_open());
    late->respond({.body = "again"});
  }

  TEST_CASE("a stream arrives piece by piece") {
    HttpServer server(on_free_port());
    std::shared_ptr<HttpExchange> stream;
    std::atomic<bool> has_come = false;
    server.handle("GET", "/stream", [&](auto exchange) {
      exchange->begin_stream({.content_type = "text/event-stream", .body = "first;"});
      stream = std::move(exchange);
      has_come = true;
    });
    server.start();
    RawClient client(server.port());
    REQUIRE(client.send("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    REQUIRE(client.read_until("first;"));
    for (int i = 0; i < 100; ++i) {
      const std::string piece = "piece " + std::to_string(i) + ";";
      REQUIRE(stream->write(piece));
      REQUIRE(client.read_until(piece));
    }
    stream->end();
    const HttpReply reply = client.read_reply();
    CHECK(reply.headers.at("content-type") == "text/event-stream");
    CHECK(reply.body.rfind("first;piece 0;piece 1;", 0) == 0);
    CHECK(reply.body.substr(reply.body.size() - 9) == "piece 99;");
    CHECK_FALSE(stream->write("more"));
  }

  TEST_CASE("many threads write to many streams at once and nothing is lost") {
    HttpServer server(on_free_port());
    std::mutex mutex;
    std::vector<std::thread> writers;
    server.handle("GET", "/stream", [&](auto exchange) {
      exchange->begin_stream({});
      const std::lock_guard lock(mutex);
      writers.emplace_back([exchange] {
        for (int i = 0; i < 2000; ++i) {
          (void)exchange->write(std::to_string(i) + ",");
          if (i % 50 == 0) std::this_thread::yield();
        }
        exchange->end();
      });
    });
    server.start();
    std::string expected;
    for (int i = 0; i < 2000; ++i) expected += std::to_string(i) + ",";
    std::vector<RawClient> clients;
    for (int i = 0; i < 16; ++i) {
      clients.emplace_back(server.port());
      REQUIRE(clients.back().send("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    }
    for (RawClient& client : clients) CHECK(client.read_reply(20000).body == expected);
    for (std::thread& writer : writers) writer.join();
  }

  TEST_CASE("the exchange notices within half a second that its client has gone") {
    HttpServer server(on_free_port());
    std::shared_ptr<HttpExchange> late, stream;
    std::atomic<int> come = 0;
    server.handle("GET", "/late", [&](auto exchange) { late = std::move(exchange), ++come; });
    server.handle("GET", "/stream", [&](auto exchange) {
      exchange->begin_stream({.body = "x"});
      stream = std::move(exchange);
      ++come;
    });
    server.start();
    {
      RawClient waits(server.port()), reads(server.port());
      REQUIRE(waits.send("GET /late HTTP/1.1\r\nHost: localhost\r\n\r\n"));
      REQUIRE(reads.send("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n"));
      REQUIRE(wait_for([&] { return come == 2; }, 2000));
      REQUIRE(reads.read_until("x"));
      CHECK(late->is_open());
      CHECK(stream->is_open());
    }
    CHECK(wait_for([&] { return !late->is_open() && !stream->is_open(); }, 500));
    CHECK_FALSE(stream->write("y"));
    late->respond({});
    CHECK(wait_for([&] { return server.counts().connections == 0; }, 1000));
  }

  TEST_CASE("handlers that throw give 500, and the server goes on") {
    HttpServer server(on_free_port());
    add_echo(&server);
    server.handle("GET", "/throw", [](const auto&) { throw std::runtime_error("it is broken"); });
    server.handle("GET", "/throw-int", [](const auto&) { throw 7; });
    server.start();
    const HttpReply reply = fetch(server.port(), "GET", "/throw");
    CHECK(reply.status == 500);
    CHECK(reply.body.find("it is broken") != std::string::npos);
    CHECK(fetch(server.port(), "GET", "/throw-int").status == 500);
    CHECK(fetch(server.port(), "GET", "/hello").status == 200);
  }

  TEST_CASE("stopping ends streams, answers who waits and can be followed by a start on the same port") {
    HttpOptions options = on_free_port();
    std::vector<std::shared_ptr<HttpExchange>> held;
    for (int round = 0; round < 3; ++round) {
      HttpServer server(options);
      std::atomic<int> come = 0;
      server.handle("GET", "/late", [&](auto exchange) { held.push_back(std::move(exchange)), ++come; });
      server.handle("GET", "/stream", [&](auto exchange) {
        exchange->begin_stream({.body = "x"});
        held.push_back(std::move(exchange));
        ++come;
      });
      server.start();
      options.port = server.port();
      RawClient waits(server.port()), reads(server.port()), silent(server.port());
      REQUIRE(waits.send("GET /late HTTP/1.1\r\nHost: localhost\r\n\r\n"));
      REQUIRE(reads.send("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n"));
      REQUIRE(wait_for([&] { return come == 2; }, 2000));
      const int64_t begin = steady_ms();
      server.stop();
      CHECK(steady_ms() - begin < 2000);
      CHECK(waits.read_reply().status == 503);
      CHECK(reads.read_reply().body == "x");
      CHECK(silent.is_closed_within(1000));
    }
    for (const auto& exchange : held) {
      CHECK_FALSE(exchange->is_open());
      exchange->respond({});
      CHECK_FALSE(exchange->write("y"));
    }
  }

  TEST_CASE("a second server on the port is refused in one sentence") {
    EchoServer echo;
    HttpOptions options;
    options.port = echo.port();
    HttpServer second(options);
    CHECK_THROWS_WITH_AS(second.start(), doctest::Contains("cannot be listened on"), Failure);
  }

  TEST_CASE("all interfaces are listed as the addresses that others can open") {
    const std::vector<std::string> urls = reached_urls("0.0.0.0", 80);
    CHECK(urls.front() == "http://127.0.0.1:80");
    CHECK(urls.size() <= 8);
    for (const std::string& url : urls) {
      CHECK(url.find("0.0.0.0") == std::string::npos);
      CHECK(std::count(urls.begin(), urls.end(), url) == 1);
    }
    const std::vector<std::string> all = reached_urls("::", 80);
    CHECK(all.front() == "http://[::1]:80");
    for (size_t i = 1; i < urls.size(); ++i) CHECK(all[i] == urls[i]);
    for (const std::string& url : all) CHECK(url.find("fe80") == std::string::npos);
    CHECK(reached_urls("192.0.2.7", 80) == std::vector<std::string>{"http://192.0.2.7:80"});
  }

  TEST_CASE("IPv6 is listened on") {
    HttpOptions options = on_free_port();
    options.address = "::1";
    HttpServer server(options);
    try {
      server.start();
    } catch (const Failure& failure) {
      MESSAGE("this machine has no IPv6: " << failure.what());
      return;
    }
    CHECK(server.urls() == std::vector{"http://[::1]:" + std::to_string(server.port())});
  }

  TEST_CASE("a body that was taken counts for as long as it lives, and no longer") {
    HttpOptions options = on_free_port();
    options.all_body_bytes = 1000;
    HttpServer server(options);
    std::vector<HttpBody> held;
    server.handle("POST", "/hold", [&](const auto& exchange) {
      held.push_back(exchange->take_body());
      exchange->respond({.body = "held"});
    });
    server.start();
    const auto post = [&](int bytes) { return fetch(server.port(), "POST", "/hold", std::string(bytes, 'x')).status; };
    CHECK(post(600) == 200);
    CHECK(server.counts().body_bytes == 600);
    CHECK(post(600) == 503);
    CHECK(held[0].recount(300));
    CHECK(post(600) == 200);
    CHECK(server.counts().body_bytes == 900);
    CHECK(std::string(std::move(held[0])) == std::string(600, 'x'));
    CHECK(server.counts().body_bytes == 600);
    held.clear();
    CHECK(server.counts().body_bytes == 0);
    CHECK(most_http_bytes(options) > options.all_body_bytes + options.connections * options.stream_bytes);
  }

  TEST_CASE("a path may have a limit of its own for bodies") {
    HttpServer server(on_free_port());
    const auto echo = [](const auto& exchange) { exchange->respond({.body = exchange->take_body()}); };
    server.handle("POST", "/small", echo, 10);
    server.handle("POST", "/large", echo, 3 << 20);
    server.start();
    CHECK(fetch(server.port(), "POST", "/small", std::string(10, 'x')).status == 200);
    CHECK(fetch(server.port(), "POST", "/small", std::string(11, 'x')).status == 413);
    CHECK(fetch(server.port(), "POST", "/large", std::string(3 << 20, 'x')).body.size() == 3 << 20);
    CHECK(fetch(server.port(), "POST", "/large", std::string((3 << 20) + 1, 'x')).status == 413);
  }

  TEST_CASE("addresses are written as one would expect") {
    CHECK(parse_http_address("8080").port == 8080);
    CHECK(parse_http_address(":80").address == "127.0.0.1");
    CHECK(parse_http_address("localhost:1").address == "127.0.0.1");
    CHECK(parse_http_address("[::1]:2").address == "::1");
    CHECK(parse_http_address("0.0.0.0:0").port == 0);
    for (const char* wrong : {"", "x", "1.2.3.4", "::1:80", "1.2.3.4:99999", "1.2.3.4:-1", "[::1]"}) {
      CHECK_THROWS_AS((void)parse_http_address(wrong), Failure);
    }
  }
}

}  // namespace ocellus::app
