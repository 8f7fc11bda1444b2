// Answers that are long: in pieces, or counted with all that the server holds.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "apps/http/http_server.h"
#include "tests/support/http_client.h"

namespace ocellus::app {

TEST_SUITE("http answers") {
  TEST_CASE("an answer in pieces is made while it is read, and large answers count as bodies") {
    HttpOptions options = {};
    options.port = 0;
    options.stream_bytes = 1000;
    options.all_body_bytes = 5000;
    HttpServer server(options);
    std::atomic<int> made = 0;
    constexpr int kPieces = 2000, kPieceBytes = 16384;
    server.handle("GET", "/pieces", [&](const auto& exchange) {
      const auto left = std::make_shared<int>(kPieces);
      exchange->respond({.body = {}, .more = [&made, left] {
                           if (*left == 0) return std::string();
                           ++made;
                           return std::string(kPieceBytes, static_cast<char>('a' + --*left % 26));
                         }});
    });
    server.handle("GET", "/large", [](const auto& exchange) { exchange->respond({.body = std::string(4000, 'x')}); });
    server.handle("GET", "/larger", [](const auto& exchange) { exchange->respond({.body = std::string(6000, 'x')}); });
    server.handle("GET", "/small", [](const auto& exchange) { exchange->respond({.body = std::string(1000, 'x')}); });
    server.start();
    RawClient client(server.port());
    REQUIRE(client.send("GET /pieces HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    REQUIRE(client.read_until("\r\n\r\n"));
    CHECK(wait_for([&] { return made > 0; }, 2000));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    CHECK(made < kPieces);  // the client has not read them
    const HttpReply reply = fetch(server.port(), "GET", "/pieces");
    CHECK(reply.body.size() == size_t{kPieces} * kPieceBytes);
    CHECK(reply.body.front() == static_cast<char>('a' + (kPieces - 1) % 26));
    CHECK(reply.body.back() == 'a');
    CHECK(fetch(server.port(), "GET", "/large").status == 200);
    CHECK(fetch(server.port(), "GET", "/larger").status == 503);
    CHECK(fetch(server.port(), "GET", "/small").status == 200);
    CHECK(wait_for([&] { return server.counts().body_bytes == 0; }, 2000));
  }
}

}  // namespace ocellus::app
