#include "apps/serve/talk_page.h"

#include "apps/base/embedded_files.h"
#include "apps/http/http_access.h"
#include "apps/http/page_files.h"

namespace ocellus::app {
namespace {

constexpr char kForOthers[] =
    "This is `ocellus serve`: OpenAI's chat API. Clients take this address with /v1 as base URL, and its token, "
    "if any, as API key. GET /v1/models lists the model; /healthz and /metrics report the state. A browser gets a page "
    "here, to talk with pictures.\n";

}  // namespace

void add_talk_page(HttpServer* server, bool is_open) {
  add_page(server, talk_files().subspan(1));
  server->handle("GET", "/", [](const std::shared_ptr<HttpExchange>& exchange) {
    const bool is_browser = asks_for_page(exchange->request());
    exchange->respond(is_browser ? send_page_file(talk_files().front()) : HttpResponse{.body = kForOthers});
  });
  for (const EmbeddedFile& schema : schema_files()) {
    server->handle("GET", "/schemas/" + std::string(schema.path),
                   [&schema](const auto& exchange) { exchange->respond(send_page_file(schema)); });
  }
  if (!is_open) return;
  server->open_path("/schemas/*");
  for (const std::span<const EmbeddedFile> files : {talk_files(), page_files()})
    for (const EmbeddedFile& file : files) server->open_path(std::string(file.path));
}

}  // namespace ocellus::app
