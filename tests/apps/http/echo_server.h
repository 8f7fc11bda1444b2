// A server that answers with what it is sent.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "apps/http/http_server.h"
#include "tests/support/http_client.h"

namespace ocellus::app {

inline HttpOptions on_free_port() {
  HttpOptions options;
  options.port = 0;
  return options;
}

inline void add_echo(HttpServer* server) {
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

inline std::string error_code(const HttpReply& reply) {
  return nlohmann::json::parse(reply.body).at("error").at("code").get<std::string>();
}

}  // namespace ocellus::app
