#include "apps/http/token_page.h"

#include <microhttpd.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include "apps/base/embedded_files.h"

namespace ocellus::app {
namespace {

constexpr char kPath[] = "/token";
constexpr int64_t kMaxFormBytes = 8192;  // clients without the token send it
constexpr size_t kMaxLocationBytes = 2048;
constexpr char kPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'";

HttpResponse send_file(const EmbeddedFile& file) {
  return {.content_type = std::string(file.content_type),
          .body = std::string(file.content),
          .headers = {{"Content-Security-Policy", kPolicy}}};
}

void fill_in(std::string* page, std::string_view mark, std::string_view text) {
  page->replace(page->find(mark), mark.size(), text);
}

// Returns a field of a form as browsers send it, "token=a%2Bb&to=%2F"; empty if there is none.
std::string form_field(std::string_view form, std::string_view name) {
  while (!form.empty()) {
    const std::string_view field = form.substr(0, form.find('&'));
    form.remove_prefix(std::min(field.size() + 1, form.size()));
    if (!field.starts_with(name) || field.substr(name.size(), 1) != "=") continue;
    std::string value(field.substr(name.size() + 1));
    std::replace(value.begin(), value.end(), '+', ' ');
    value.resize(MHD_http_unescape(value.data()));
    return value;
  }
  return {};
}

// True for a path and query of this server as location_without_token() writes them. Two slashes would begin the name of
// another machine.
bool is_own_location(std::string_view to) {
  const auto is_plain = [](unsigned char c) {
    return c < 128 && (std::isalnum(c) || (c != 0 && std::strchr("-._~/?=&%", c) != nullptr));
  };
  return to.starts_with('/') && !to.starts_with("//") && std::all_of(to.begin(), to.end(), is_plain);
}

void take_token(const AccessRules& rules, const std::shared_ptr<HttpExchange>& exchange) {
  const std::string& form = exchange->request().body;
  std::string to = form_field(form, "to");
  if (!is_own_location(to)) to.assign(1, '/');
  const bool is_right = is_equal_in_constant_time(form_field(form, "token"), rules.token);
  exchange->respond(is_right ? keep_token_in_cookie(rules, to) : ask_for_token(to, /*is_wrong=*/true));
}

}  // namespace

HttpResponse ask_for_token(const std::string& to, bool is_wrong) {
  HttpResponse page = send_file(token_files().front());
  page.status = 401;
  std::string shown;  // in HTML; there is no other character that means something there
  for (const char c : to.size() > kMaxLocationBytes ? "/" : to) {
    shown += c;
    if (c == '&') shown.append("amp;");
  }
  fill_in(&page.body, "{to}", shown);
  fill_in(&page.body, "{why}",
          is_wrong ? "This token is wrong." : "A token is needed: that with which the program was started.");
  return page;
}

HttpResponse keep_token_in_cookie(const AccessRules& rules, const std::string& to) {
  HttpResponse response = {.status = 303, .body = "The token is kept as a cookie.\n"};
  response.headers = {{"Set-Cookie", rules.cookie_name + "=" + rules.token + "; HttpOnly; SameSite=Strict; Path=/"},
                      {"Location", to}};
  return response;
}

void add_token_page(HttpServer* server, const AccessRules* rules) {
  server->handle("GET", kPath, [](const auto& exchange) { exchange->respond(ask_for_token("/", /*is_wrong=*/false)); });
  server->handle(
      "POST", kPath, [rules](const auto& exchange) { take_token(*rules, exchange); }, kMaxFormBytes);
  server->open_path(kPath);
  for (const EmbeddedFile& file : token_files().subspan(1)) {
    const std::string path(file.path);
    server->handle("GET", path, [&file](const auto& exchange) { exchange->respond(send_file(file)); });
    server->open_path(path);
  }
}

}  // namespace ocellus::app
