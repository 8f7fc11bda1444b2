#include "apps/http/page_files.h"

namespace ocellus::app {
namespace {

constexpr char kPagePolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

}  // namespace

HttpResponse send_page_file(const EmbeddedFile& file) {
  return {.content_type = std::string(file.content_type),
          .body = std::string(file.content),
          .headers = {{"Content-Security-Policy", kPagePolicy}, {"Cache-Control", "no-cache"}}};
}

void add_page(HttpServer* server, std::span<const EmbeddedFile> files) {
  for (const std::span<const EmbeddedFile> some : {files, page_files()}) {
    for (const EmbeddedFile& file : some) {
      server->handle("GET", std::string(file.path),
                     [&file](const auto& exchange) { exchange->respond(send_page_file(file)); });
    }
  }
  // Browsers request it for an answer that is no page and names no icon.
  server->handle("GET", "/favicon.ico", [](const auto& exchange) { exchange->respond({.status = 204, .body = ""}); });
}

}  // namespace ocellus::app
