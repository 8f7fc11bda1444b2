// Heads that two programs in a row could read in two ways are refused, and nothing after them is taken for a request.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "apps/http/http_head.h"
#include "tests/apps/http/echo_server.h"

namespace ocellus::app {
namespace {

struct Target {
  Target() : server(on_free_port()) {
    server.handle("GET", "/hello", [](const auto& exchange) { exchange->respond({.body = "hello"}); });
    server.handle("POST", "/echo", [](const auto& exchange) { exchange->respond({.body = exchange->take_body()}); });
    server.handle("GET", "/hidden", [this](const auto& exchange) {
      ++hidden;
      exchange->respond({.body = "hidden"});
    });
    server.start();
  }
  std::atomic<int> hidden = 0;
  HttpServer server;
};

const std::string kHidden = "GET /hidden HTTP/1.1\r\nHost: localhost\r\n\r\n";
const std::string kGet = "GET /hello HTTP/1.1\r\n", kPost = "POST /echo HTTP/1.1\r\n", kHost = "Host: localhost\r\n";

// Each with two meanings, or with none.
const std::vector<std::string> kHeads = {
    kPost + kHost + "Content-Length: 5\r\nContent-Length: 0\r\n\r\nabcde",
    kPost + kHost + "Content-Length: 0\r\nContent-Length: 0\r\n\r\n",
    kGet + kHost + "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n",
    kGet + kHost + "Origin: http://localhost\r\norigin: https://example.com\r\n\r\n",
    kGet + kHost + "Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site\r\n\r\n",
    kPost + kHost + "Content-Type: text/plain\r\nContent-Type: application/json\r\nContent-Length: 0\r\n\r\n",
    kPost + kHost + "Content-Length: 0, 0\r\n\r\n",
    kPost + kHost + "Content-Length: +0\r\n\r\n",
    kPost + kHost + "Content-Length: -0\r\n\r\n",
    kPost + kHost + "Content-Length: 0x0\r\n\r\n",
    kPost + kHost + "Content-Length: \r\n\r\n",
    kPost + kHost + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    kPost + kHost + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    kPost + kHost + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    kPost + kHost + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    kPost + kHost + "Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n",
    kPost + kHost + "Transfer-Encoding: identity\r\n\r\n",
    kPost + kHost + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    kPost + kHost + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    kPost + kHost + "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n",
    kPost + kHost +
        "Transfer-Encoding:\x0b"
        "chunked\r\n\r\n0\r\n\r\n",
    kPost + kHost + "Transfer-Encoding: chun\r\n ked\r\n\r\n0\r\n\r\n",
    kPost + kHost + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "POST /echo HTTP/1.0\r\n" + kHost + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    kPost + kHost + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    kPost + kHost + "Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n",
    kPost + kHost + "Content-Length : 5\r\n\r\n",
    kPost + kHost + " Content-Length: 5\r\n\r\n",
    kPost + kHost + "X: a\r\n Content-Length: 5\r\n\r\n",
    kPost + kHost + "X: a\r\n\tb\r\nContent-Length: 0\r\n\r\n",
    kPost + kHost + "Content-Length: 5\r\n 0\r\n\r\n",
    kGet + kHost + "X: a\r\n b\r\n\r\n",
    kGet + kHost + "X: a\r\n \r\n\r\n",
    kGet + " X: a\r\n" + kHost + "\r\n",
    kGet + kHost + kHost + "\r\n",
    kGet + kHost + "hOST: example.com\r\n\r\n",
    kGet + "Host: localhost, example.com\r\n\r\n",
    kGet + "Host: localhost/x\r\n\r\n",
    kGet + "Host: user@localhost\r\n\r\n",
    kGet + "Host:\r\n\r\n",
    kGet + "X: y\r\n\r\n",
    kGet + kHost + "X: a\rContent-Length: 5\r\n\r\n",
    kGet + kHost + "X: a\r\r\nY: b\r\n\r\n",
    kGet + kHost + "X: a\nY: b\r\n\r\n",
    kGet + kHost + "X:   a\nY: b\n \r\n\r\n",
    kGet + kHost + "X: a\n\r\n",
    kGet + kHost + "X: a\r\n\n",
    kGet + "Host: localhost\n\n",
    "GET /hello HTTP/1.1\n" + kHost + "\r\n",
    kGet + kHost + std::string("X: a\0b\r\n\r\n", 10),
    kGet + kHost + std::string("X: \0\r\n\r\n", 8),
    kGet + kHost +
        "X: a\x01"
        "b\r\n\r\n",
    kGet + kHost + "X(): a\r\n\r\n",
    kGet + kHost + "X\x80: a\r\n\r\n",
    kGet + kHost + ": a\r\n\r\n",
    kGet + kHost + "no colon\r\n\r\n",
    "GET  /hello HTTP/1.1\r\n" + kHost + "\r\n",
    "G(T /hello HTTP/1.1\r\n" + kHost + "\r\n",
    "GET http://localhost/hello HTTP/1.1\r\n" + kHost + "\r\n"};

// A head as it is received, with its parts where they lie there.
struct Received {
  explicit Received(std::string given) : text(std::move(given)) {}
  std::string_view part(const std::string& wanted, size_t from = 0) const {
    const size_t at = text.find(wanted, from);
    return std::string_view(text).substr(at, wanted.size());
  }
  std::string text;
};

}  // namespace

TEST_SUITE("http smuggling") {
  TEST_CASE("heads with two meanings get 400, and what follows them is no request") {
    Target target;
    for (const std::string& head : kHeads) {
      CAPTURE(head);
      RawClient client(target.server.port());
      (void)client.send(head + kHidden + kHidden);
      const HttpReply reply = client.read_reply();
      CHECK(reply.status == 400);
      CHECK(client.is_closed_within(3000));
      CHECK(client.received().find("HTTP/1.1") == std::string::npos);
    }
    CHECK(target.hidden == 0);
  }

  TEST_CASE("lines that no server would read end the connection at once") {
    Target target;
    for (const std::string& head :
         {"GET /hello  HTTP/1.1\r\n" + kHost + "\r\n", "GET /hel lo HTTP/1.1\r\n" + kHost + "\r\n",
          "GET /hello HTTP/1.1 \r\n" + kHost + "\r\n", "GET /hello HTTP/1.1\rX\r\n" + kHost + "\r\n",
          "GET\t/hello\tHTTP/1.1\r\n" + kHost + "\r\n", "GET /hello HTTP/1.2\r\n" + kHost + "X: a\r\n b\r\n\r\n",
          "GET /hello HTTP/2.0\r\n" + kHost + "\r\n"}) {
      CAPTURE(head);
      RawClient client(target.server.port());
      (void)client.send(head + kHidden + kHidden);
      const HttpReply reply = client.read_reply();
      CHECK((reply.status == 0 || reply.status == 400 || reply.status == 505));
      CHECK(client.is_closed_within(3000));
    }
    CHECK(target.hidden == 0);
  }

  TEST_CASE("after a body in chunks the connection ends, whatever its chunks look like") {
    Target target;
    for (const char* chunks : {"3\r\nabc\r\n0\r\n\r\n", "3;x=y\r\nabc\r\n0\r\n\r\n", "3\nabc\n0\n\n",
                               "3\r\nabc\r\n0\r\nTrailer: x\r\n\r\n", "3 \r\nabc\r\n0\r\n\r\n"}) {
      CAPTURE(chunks);
      RawClient client(target.server.port());
      REQUIRE(client.send(kPost + kHost + "Transfer-Encoding: chunked\r\n\r\n" + chunks + kHidden + kHidden));
      const HttpReply reply = client.read_reply();
      CHECK((reply.status == 0 || reply.status == 400 || (reply.status == 200 && reply.body == "abc")));
      CHECK(client.is_closed_within(3000));
      CHECK(client.received().find("HTTP/1.1") == std::string::npos);
    }
    CHECK(target.hidden == 0);
  }

  TEST_CASE("bodies with a length end there, and the next request begins") {
    Target target;
    RawClient client(target.server.port());
    REQUIRE(client.send(kPost + kHost + "Content-Length: 5\r\n\r\nabcde" + kHidden + kGet + kHost +
                        "Content-Length: 3\r\n\r\nabc" + kHidden));
    CHECK(client.read_reply().body == "abcde");
    CHECK(client.read_reply().body == "hidden");
    CHECK(client.read_reply().body == "hello");
    CHECK(client.read_reply().body == "hidden");
  }

  TEST_CASE("heads of every sound shape are taken, however they arrive") {
    Target target;
    const std::vector<std::string> fields = {
        "X:a\r\n",
        "X: a\r\n",
        "X:  \t a\r\n",
        "X: a \r\n",
        "X:\r\n",
        "X: \r\n",
        "X: a\r\nX: a\r\n",
        "X: caf\xc3\xa9\r\n",
        "Cookie: a=b; c=\"d\"; e\r\n",
        "Cookie: " + std::string(5'000, 'c') + "\r\nX: " + std::string(3'000, 'x') + "\r\n"};
    for (const std::string& field : fields) {
      for (const std::string target_path : {"/hello", "/hello?a=b&c&d=%20+", "/h%65ll%6f"}) {
        CAPTURE(field.substr(0, 50));
        const std::string request =
            "GET " + target_path + " HTTP/1.1\r\n" + field + kHost + field + "Accept: */*\r\n\r\n";
        RawClient whole(target.server.port());
        REQUIRE(whole.send("\r\n" + request + request));
        CHECK(whole.read_reply().status == 200);
        CHECK(whole.read_reply().status == 200);
        RawClient pieces(target.server.port());
        for (size_t at = 0; at < request.size(); at += request.size() / 7 + 1) {
          REQUIRE(pieces.send(request.substr(at, request.size() / 7 + 1)));
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        CHECK(pieces.read_reply().status == 200);
      }
    }
    CHECK(fetch(target.server.port(), "GET", "/hello", "", "Host: localhost:80\r\n").status == 200);
    RawClient old(target.server.port());
    REQUIRE(old.send("GET /hello HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n"));
    CHECK(old.read_reply().status == 200);
  }

  TEST_CASE("where the parts of a head lie shows what stood between them") {
    const auto lies = [](const Received& head, const std::string& value, const std::string& next) {
      const RequestHead parts = {.method = head.part("GET"),
                                 .target = head.part("/a"),
                                 .version = head.part("HTTP/1.1"),
                                 .fields = {{head.part("X"), head.part(value)}, {head.part(next), head.part("z")}}};
      return lies_as_received(parts, head.text.size());
    };
    CHECK(lies(Received("GET /a HTTP/1.1\r\nX: value\r\nY: z\r\n\r\n"), "value", "Y"));
    CHECK(lies(Received("GET /a HTTP/1.1\r\nX:value\r\nY: \t z\r\n\r\n"), "value", "Y"));
    CHECK_FALSE(lies(Received("GET /a HTTP/1.1\r\nX: value\nY: z\r\n\r\n"), "value", "Y"));
    CHECK_FALSE(lies(Received("GET /a HTTP/1.1\r\nX: value\r\n fold\r\nY: z\r\n\r\n"), "value", "Y"));
    CHECK_FALSE(lies(Received("GET /a HTTP/1.1\r\nX: value\r\nY: z\n\r\n"), "value", "Y"));
    CHECK_FALSE(lies(Received("GET /a HTTP/1.1\r\nX: value\r\nY: z\r\n fold\r\n\r\n"), "value", "Y"));
    CHECK_FALSE(lies(Received("GET /a HTTP/1.1\nX: value\r\nY: z\r\n\r\n"), "value", "Y"));
    CHECK_FALSE(lies(Received("GET  /a HTTP/1.1\r\nX: value\r\nY: z\r\n\r\n"), "value", "Y"));
    CHECK_FALSE(lies(Received("GET /a  HTTP/1.1\r\nX: value\r\nY: z\r\n\r\n"), "value", "Y"));
  }
}

}  // namespace ocellus::app
