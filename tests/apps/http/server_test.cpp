// The HTTP server's answers to well-behaved clients, and to those without access.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "apps/base/failure.h"
#include "apps/http/http_access.h"
#include "apps/http/http_server.h"
#include "tests/support/http_client.h"

namespace ocellus::app {
namespace {

using std::chrono::milliseconds;

HttpOptions on_free_port() {
  HttpOptions options;
  options.port = 0;
  return options;
}

void add_echo(HttpServer* server) {
  server->handle("POST", "/echo", [](const auto& exchange) {
    exchange->respond({.content_type = "application/octet-stream", .body = exchange->take_body()});
  });
  server->handle("GET", "/hello", [](const auto& exchange) {
    exchange->respond({.body = "hello " + std::string(exchange->request().argument("name"))});
  });
}

struct EchoServer {
  explicit EchoServer(HttpOptions options = on_free_port()) : server(std::move(options)) {
    add_echo(&server);
    server.start();
  }
  int32_t port() const { return server.port(); }
  HttpServer server;
};

std::string error_code(const HttpReply& reply) {
  return nlohmann::json::parse(reply.body).at("error").at("code").get<std::string>();
}

}  // namespace

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

  TEST_CASE("addresses that others reach need a token, and tokens need sound letters") {
    HttpOptions options = on_free_port();
    options.address = "0.0.0.0";
    CHECK_THROWS_WITH_AS(HttpServer{options}, doctest::Contains("needs --token"), Failure);
    options.address = "::";
    CHECK_THROWS_AS(HttpServer{options}, Failure);
    options.token = "two words";
    CHECK_THROWS_WITH_AS(HttpServer{options}, doctest::Contains("--token"), Failure);
    options.address = "127.0.0.1";
    options.token = "good-token_1.2~3+/=";
    EchoServer echo(options);
    CHECK(fetch(echo.port(), "GET", "/hello", "", "Authorization: Bearer good-token_1.2~3+/=\r\n").status == 200);
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

  TEST_CASE("a token is taken as a header, in the address of a page and as the cookie that it becomes") {
    HttpOptions options = on_free_port();
    options.token = "secret";
    HttpServer server(options);
    add_echo(&server);
    server.handle("GET", "/healthz", [](const auto& exchange) { exchange->respond({.body = "ok"}); });
    server.open_path("/healthz");
    server.start();
    const int32_t port = server.port();
    const HttpReply refused = fetch(port, "GET", "/hello");
    CHECK(refused.status == 401);
    CHECK(refused.headers.at("www-authenticate").rfind("Bearer", 0) == 0);
    CHECK(error_code(refused) == "invalid_api_key");
    for (const char* wrong : {"secre", "secreT", "secret2", "", "Secret"}) {
      CHECK(fetch(port, "GET", "/hello", "", "Authorization: Bearer " + std::string(wrong) + "\r\n").status == 401);
      CHECK(fetch(port, "GET", "/hello?token=" + std::string(wrong)).status == 401);
      CHECK(fetch(port, "GET", "/hello", "", "Cookie: ocellus_" + std::to_string(port) + "=" + wrong + "\r\n").status ==
            401);
    }
    CHECK(fetch(port, "GET", "/nothing").status == 401);
    CHECK(fetch(port, "GET", "/healthz").status == 200);
    CHECK(fetch(port, "GET", "/hello", "", "Authorization: Bearer secret\r\n").status == 200);
    CHECK(fetch(port, "POST", "/echo", "x", "Authorization: bearer secret\r\n").status == 200);

    const HttpReply moved = fetch(port, "GET", "/hello?token=secret&name=a%20b");
    CHECK(moved.status == 303);
    CHECK(moved.headers.at("location") == "/hello?name=a%20b");
    const std::string cookie = moved.headers.at("set-cookie");
    CHECK(cookie.find("; HttpOnly; SameSite=Strict; Path=/") != std::string::npos);
    CHECK(fetch(port, "GET", "//other.example/x?token=secret").headers.at("location") == "/other.example/x");
    const std::string kept = "Cookie: a=b; " + cookie.substr(0, cookie.find(';')) + "\r\n";
    CHECK(fetch(port, "GET", "/hello", "", kept).status == 200);
    CHECK(fetch(port, "POST", "/echo", "x", kept).status == 200);
    CHECK(fetch(port, "POST", "/echo", "x", kept + "Origin: http://localhost\r\n").status == 200);
    CHECK(fetch(port, "POST", "/echo", "x", kept + "Origin: http://localhost:1\r\n").status == 403);
  }

  TEST_CASE("a browser without the token gets a page with a field for it, others the error") {
    HttpOptions options = on_free_port();
    options.token = "good-token_1.2~3+/=";
    EchoServer echo(options);
    const std::string browser = "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n";
    const HttpReply page = fetch(echo.port(), "GET", "/hello?name=a%20b&x=%22%3C", "", browser);
    CHECK(page.status == 401);
    CHECK(page.headers.at("content-type") == "text/html; charset=utf-8");
    CHECK(page.headers.at("cache-control") == "no-store");
    CHECK(page.headers.at("content-security-policy").find("frame-ancestors 'none'") != std::string::npos);
    CHECK(page.body.find("A token is needed") != std::string::npos);
    CHECK(page.body.find("\"/hello?name=a%20b&amp;x=%22%3C\"") != std::string::npos);
    const HttpReply wrong = fetch(echo.port(), "GET", "/hello?token=x&name=y", "", browser);
    CHECK(wrong.body.find("This token is wrong") != std::string::npos);
    CHECK(wrong.body.find("\"/hello?name=y\"") != std::string::npos);
    CHECK(error_code(fetch(echo.port(), "GET", "/hello", "", "Accept: */*\r\n")) == "invalid_api_key");
    CHECK(error_code(fetch(echo.port(), "POST", "/echo", "x", browser)) == "invalid_api_key");
    options.token.clear();
    options.keys = {{.secret = "key", .user = "ann"}};
    CHECK(error_code(fetch(EchoServer(options).port(), "GET", "/hello", "", browser)) == "invalid_api_key");
    CHECK(fetch(EchoServer().port(), "GET", "/token", "", browser).status == 404);
  }

  TEST_CASE("the page's form gives the cookie, and leads nowhere but to this server") {
    HttpOptions options = on_free_port();
    options.token = "good-token_1.2~3+/=";
    EchoServer echo(options);
    const std::string token = "token=good-token_1.2%7E3%2B%2F%3D",
                      type = "Content-Type: application/x-www-form-urlencoded\r\n";
    const auto post = [&](const std::string& form, const std::string& headers = "") {
      return fetch(echo.port(), "POST", "/token", form, type + headers);
    };
    const HttpReply right = post(token + "&to=%2Fhello%3Fname%3Da%2520b");
    CHECK(right.status == 303);
    CHECK(right.headers.at("location") == "/hello?name=a%20b");
    const std::string cookie = right.headers.at("set-cookie");
    CHECK(cookie.find("; HttpOnly; SameSite=Strict; Path=/") != std::string::npos);
    const std::string kept = "Cookie: " + cookie.substr(0, cookie.find(';')) + "\r\n";
    CHECK(fetch(echo.port(), "GET", "/hello?name=x", "", kept).body == "hello x");
    for (const char* form : {"", "token", "token=", "to=%2F", "token=good", "tokens=1", "token=good-token_1.2~3+/=",
                             "token=good-token_1.2~3%2B%2F%3D%00", "token=x&token=good-token_1.2~3%2B%2F%3D"}) {
      const HttpReply refused = post(form);
      CHECK(refused.status == 401);
      CHECK(refused.headers.count("set-cookie") == 0);
      CHECK(refused.body.find("This token is wrong") != std::string::npos);
      CHECK(refused.body.find("good") == std::string::npos);
    }
    for (const char* to : {"", "%2F%2Fother.example", "http%3A%2F%2Fother.example", "%2F%5Cother.example",
                           "%2F%0D%0AX:1", "%2F%22%3E%3Cb%3E", "hello"}) {
      CHECK(post(token + "&to=" + to).headers.at("location") == "/");
      CHECK(post("to=" + std::string(to)).body.find("value=\"/\"") != std::string::npos);
    }
    CHECK(post(token, "Origin: http://other.example\r\n").status == 403);
    CHECK(post(token, "Origin: null\r\n").status == 403);
    CHECK(post(std::string(9000, 'x')).status == 413);
    const std::string far = "/" + std::string(3000, 'x');
    CHECK(fetch(echo.port(), "GET", far, "", "Accept: text/html\r\n").body.find("value=\"/\"") != std::string::npos);
  }

  TEST_CASE("without a token only names of this machine are answered") {
    EchoServer echo;
    const int32_t port = echo.port();
    for (const char* host : {"localhost", "LOCALHOST:8080", "127.0.0.1:1", "127.1.2.3", "[::1]", "[::1]:80"}) {
      CHECK(fetch(port, "GET", "/hello", "", "Host: " + std::string(host) + "\r\n").status == 200);
    }
    for (const char* host : {"example.com", "localhost.example.com", "127.0.0.1.example.com", "[::2]", "10.0.0.1"}) {
      CHECK(fetch(port, "GET", "/hello", "", "Host: " + std::string(host) + "\r\n").status == 403);
    }
  }

  TEST_CASE("pages of other origins are refused for every method, with a token and without one") {
    HttpOptions with_token = on_free_port();
    with_token.token = "secret";
    for (const HttpOptions& options : {on_free_port(), with_token}) {
      EchoServer echo(options);
      const std::string lines = "Authorization: Bearer secret\r\nHost: localhost:1\r\n";
      const auto asked = [&](const std::string& line) {
        const HttpReply get = fetch(echo.port(), "GET", "/hello", "", lines + line);
        const HttpReply post = fetch(echo.port(), "POST", "/echo", "x", lines + line);
        CHECK(get.headers.at("cross-origin-resource-policy") == "same-origin");
        CHECK(get.status == post.status);
        return get.status;
      };
      CHECK(asked("") == 200);
      CHECK(asked("Origin: http://localhost:1\r\n") == 200);
      CHECK(asked("Origin: http://localhost:1\r\nSec-Fetch-Site: same-origin\r\n") == 200);
      CHECK(asked("Sec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\n") == 200);
      for (const char* origin : {"null", "http://example.com", "http://localhost", "https://localhost:1"}) {
        CAPTURE(origin);
        CHECK(asked("Origin: " + std::string(origin) + "\r\n") == 403);
      }
      for (const char* site : {"cross-site", "same-site", "something new"}) {
        CAPTURE(site);
        CHECK(asked("Sec-Fetch-Site: " + std::string(site) + "\r\n") == 403);
        CHECK(asked("Origin: http://localhost:1\r\nSec-Fetch-Site: " + std::string(site) + "\r\n") == 403);
      }
    }
  }

  TEST_CASE("a link from elsewhere leads to the page, in a tab of its own and nowhere else") {
    HttpServer server(on_free_port());
    add_echo(&server);
    server.handle("GET", "/", [](const auto& exchange) { exchange->respond({.body = "page"}); });
    server.start();
    const auto follow = [&](const char* method, const char* path, const std::string& mode, const std::string& target) {
      const std::string lines =
          "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: " + mode + "\r\nSec-Fetch-Dest: " + target + "\r\n";
      return fetch(server.port(), method, path, "", lines).status;
    };
    CHECK(follow("GET", "/", "navigate", "document") == 200);
    CHECK(follow("GET", "/", "navigate", "iframe") == 403);
    CHECK(follow("GET", "/", "no-cors", "image") == 403);
    CHECK(follow("GET", "/", "cors", "empty") == 403);
    CHECK(follow("POST", "/", "navigate", "document") == 403);
    CHECK(follow("GET", "/hello", "navigate", "document") == 403);
  }

  TEST_CASE("pages of an allowed origin may ask, and their browser is told so beforehand") {
    HttpOptions options = on_free_port();
    options.cors_origins = {"https://one.example", "http://two.example:8080"};
    options.token = "secret";
    EchoServer echo(options);
    const auto preflight = [&](const std::string& origin) {
      return fetch(echo.port(), "OPTIONS", "/echo", "",
                   "Origin: " + origin +
                       "\r\nSec-Fetch-Site: cross-site\r\nAccess-Control-Request-Method: POST\r\n"
                       "Access-Control-Request-Headers: authorization,content-type\r\n");
    };
    for (const char* origin : {"https://one.example", "http://two.example:8080"}) {
      const HttpReply asked = preflight(origin);
      CHECK(asked.status == 204);
      CHECK(asked.headers.at("access-control-allow-origin") == origin);
      CHECK(asked.headers.at("access-control-allow-methods").find("POST") != std::string::npos);
      CHECK(asked.headers.at("access-control-allow-headers").find("Authorization") != std::string::npos);
      const std::string lines = "Origin: " + std::string(origin) + "\r\nSec-Fetch-Site: cross-site\r\n";
      const HttpReply done = fetch(echo.port(), "POST", "/echo", "x", lines + "Authorization: Bearer secret\r\n");
      CHECK(done.status == 200);
      CHECK(done.headers.at("access-control-allow-origin") == origin);
      CHECK(done.headers.at("vary") == "Origin");
      const HttpReply refused = fetch(echo.port(), "POST", "/echo", "x", lines);
      CHECK(refused.status == 401);
      CHECK(refused.headers.at("access-control-allow-origin") == origin);
    }
    for (const char* origin : {"http://one.example", "https://one.example:443", "null", "https://one.example.evil"}) {
      CAPTURE(origin);
      CHECK(preflight(origin).status == 403);
      CHECK(preflight(origin).headers.count("access-control-allow-origin") == 0);
    }
    CHECK(fetch(echo.port(), "GET", "/hello", "", "Authorization: Bearer secret\r\n")
              .headers.count("access-control-allow-origin") == 0);
    for (const char* wrong : {"*", "null", "example.com", "https://a.b/", "https://A.b", "https://", "://a", ""}) {
      CAPTURE(wrong);
      options.cors_origins = {wrong};
      CHECK_THROWS_WITH_AS(HttpServer{options}, doctest::Contains("--cors"), Failure);
    }
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

  TEST_CASE("secrets are compared whole") {
    CHECK(is_equal_in_constant_time("abc", "abc"));
    CHECK_FALSE(is_equal_in_constant_time("ab", "abc"));
    CHECK_FALSE(is_equal_in_constant_time("abcabc", "abc"));
    CHECK_FALSE(is_equal_in_constant_time("", "abc"));
    CHECK_FALSE(is_equal_in_constant_time("abd", "abc"));
    CHECK_FALSE(is_equal_in_constant_time("x", ""));
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
