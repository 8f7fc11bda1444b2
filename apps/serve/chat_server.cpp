#include "apps/serve/chat_server.h"

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "apps/base/plain_text.h"
#include "apps/serve/endpoint.h"
#include "apps/serve/request_error.h"

namespace ocellus::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kModels = "/v1/models/";
// With --api-keys, the only user whose keys read the metrics: they are sums over all users, and tell of each to others.
constexpr std::string_view kMetricsUser = "metrics";

HttpResponse json_response(const Json& object) {
  return {.content_type = "application/json",
          .body = object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"};
}

Json model_json(const std::string& name, std::time_t created) {
  return {{"id", name}, {"object", "model"}, {"created", created}, {"owned_by", "ocellus"}};
}

const Endpoint kEndpoints[] = {
    {"POST", "/v1/chat/completions", read_chat, /*is_counted=*/true},
    {"POST", "/v1/responses", read_response, true},
    {"GET", "/v1/responses/*", read_kept_response, false},
    {"DELETE", "/v1/responses/*", read_kept_response, false},
    {"POST", "/v1/completions", read_completion, true},
    {"POST", "/v1/embeddings", read_embeddings, true},
    {"POST", "/tokenize", read_tokenize, false},
    {"POST", "/detokenize", read_detokenize, false},
    {"GET", "/tokenizer_info", read_tokenizer_info, false},
    {"POST", kFilesPath, read_file_upload, false},
    {"GET", kFilesPath, read_file_question, false},
    {"GET", "/v1/files/*", read_file_question, false},
    {"DELETE", "/v1/files/*", read_file_question, false},
};

}  // namespace

void add_chat_endpoints(HttpServer* server, ChatScheduler* scheduler, const ServeMetrics* metrics,
                        const ServedNames& names) {
  const std::time_t created = std::time(nullptr);
  for (const Endpoint& endpoint : kEndpoints) {
    server->handle(endpoint.method, endpoint.path, [scheduler, &endpoint](std::shared_ptr<HttpExchange> exchange) {
      scheduler->submit(std::move(exchange), endpoint);
    });
  }
  server->handle("GET", "/v1/models", [names, created](const std::shared_ptr<HttpExchange>& exchange) {
    Json models = Json::array();
    for (const std::string& name : names.listed) models.push_back(model_json(name, created));
    exchange->respond(json_response({{"object", "list"}, {"data", std::move(models)}}));
  });
  server->handle("GET", std::string(kModels) + "*", [names, created](const std::shared_ptr<HttpExchange>& exchange) {
    const std::string name = exchange->request().path.substr(kModels.size());
    if (!names.has(name)) return exchange->respond(error_reply(no_such_model(name, names)));
    exchange->respond(json_response(model_json(name, created)));
  });
  for (const char* path : {"/healthz", "/health"}) {
    server->handle("GET", path, [](const std::shared_ptr<HttpExchange>& exchange) {
      exchange->respond(json_response({{"status", "ok"}}));
    });
    server->open_path(path);
  }
  server->handle("GET", "/metrics", [server, metrics](const std::shared_ptr<HttpExchange>& exchange) {
    const std::string& user = exchange->request().user;
    if (!user.empty() && user != kMetricsUser) {
      return exchange->respond(
          error_reply(RequestError(403, "Metrics are sums over all users: they need a key of the user metrics.", "",
                                   "insufficient_permissions")));
    }
    exchange->respond({.content_type = kPrometheusType, .body = metrics->text(server->counts())});
  });
}

}  // namespace ocellus::app
