#include "apps/http/http_access.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "apps/base/plain_text.h"
#include "apps/http/token_page.h"

namespace ocellus::app {
namespace {

constexpr size_t kMaxTokenBytes = 512;

bool is_read_only(const HttpRequest& request) { return request.method == "GET" || request.method == "HEAD"; }

// Returns "localhost:8080" without its port, brackets of IPv6 included.
std::string_view host_name(std::string_view host) {
  if (!host.empty() && host.front() == '[') return host.substr(0, host.find(']') + 1);
  return host.substr(0, host.find(':'));
}

bool names_loopback(std::string_view host) {
  std::string name = to_lower(host_name(host));
  if (name == "localhost") return true;
  if (name.size() > 2 && name.front() == '[' && name.back() == ']') name = name.substr(1, name.size() - 2);
  return is_loopback_address(name);
}

// True if the page that sends the request, as stated by a browser, has this server's origin.
bool is_own_origin(const HttpRequest& request) {
  const std::string_view origin = request.header("origin");
  return origin.empty() || origin == "http://" + std::string(request.header("host"));
}

// Returns the value of the first cookie of that name in "a=1; b=2".
std::string_view cookie_value(std::string_view cookies, std::string_view name) {
  while (!cookies.empty()) {
    const size_t end = cookies.find(';');
    std::string_view cookie = cookies.substr(0, end);
    cookies.remove_prefix(end == std::string_view::npos ? cookies.size() : end + 1);
    cookie.remove_prefix(std::min(cookie.find_first_not_of(' '), cookie.size()));
    if (cookie.size() > name.size() && cookie.substr(0, name.size()) == name && cookie[name.size()] == '=') {
      return cookie.substr(name.size() + 1);
    }
  }
  return {};
}

std::string_view bearer_token(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (to_lower(authorization.substr(0, kScheme.size())) != kScheme) return {};
  return authorization.substr(kScheme.size());
}

std::string encode(std::string_view text, std::string_view also_plain) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte < 128 && (std::isalnum(byte) || std::strchr("-._~", c) != nullptr ||
                                      also_plain.find(c) != std::string_view::npos);
    if (plain) {
      encoded += c;
    } else {
      encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return encoded;
}

// Returns the page's own address without the token, which must not stay in the address bar, the history or a bookmark.
std::string location_without_token(const HttpRequest& request) {
  // Two slashes would begin the name of another machine.
  const size_t begin = std::min(request.path.find_first_not_of('/'), request.path.size());
  std::string location = "/";
  location += encode(std::string_view(request.path).substr(begin), "/");
  char joint = '?';
  for (const auto& [name, value] : request.query) {
    if (name == "token") continue;
    location += joint + encode(name, "") + "=" + encode(value, "");
    joint = '&';
  }
  return location;
}

HttpResponse refuse_origin() {
  return error_response(403, "Requests from pages of other origins are refused; `serve --cors ORIGIN` allows one.",
                        "permission_error", "origin_not_allowed");
}

HttpResponse refuse_unknown(const std::string& sentence) {
  HttpResponse refusal = error_response(401, sentence, "authentication_error", "invalid_api_key");
  refusal.headers = {{"WWW-Authenticate", "Bearer realm=\"ocellus\""}};
  return refusal;
}

// True for a link to the front page: it shows the page to the user, and nothing to the linking page.
bool is_link_to_page(const HttpRequest& request) {
  return is_read_only(request) && request.path == "/" && request.header("sec-fetch-mode") == "navigate" &&
         request.header("sec-fetch-dest") == "document";
}

// True if http_access.h's rule on other sites' pages refuses the request.
bool is_cross_site(const HttpRequest& request) {
  if (!request.cors_origin.empty()) return false;
  if (!is_own_origin(request)) return true;
  const std::string_view site = request.header("sec-fetch-site");
  return !site.empty() && site != "same-origin" && site != "none" && !is_link_to_page(request);
}

}  // namespace

bool asks_for_page(const HttpRequest& request) {
  return is_read_only(request) && to_lower(request.header("accept")).find("text/html") != std::string::npos;
}

bool is_numeric_address(const std::string& address) {
  in6_addr any;
  return inet_pton(AF_INET, address.c_str(), &any) == 1 || inet_pton(AF_INET6, address.c_str(), &any) == 1;
}

bool is_sound_token(const std::string& token) {
  const size_t padding = std::min(token.find('='), token.size());
  const auto is_plain = [](unsigned char c) {
    return c < 128 && (std::isalnum(c) || (c != 0 && std::strchr("-._~+/", c) != nullptr));
  };
  return padding > 0 && token.size() <= kMaxTokenBytes &&
         std::all_of(token.begin(), token.begin() + static_cast<std::ptrdiff_t>(padding), is_plain) &&
         token.find_first_not_of('=', padding) == std::string::npos;
}

bool is_sound_origin(const std::string& origin) {
  const size_t scheme = origin.find("://");
  const auto is_plain = [](unsigned char c) {
    return c < 128 && (std::isdigit(c) || std::islower(c) || (c != 0 && std::strchr("-._:[]", c) != nullptr));
  };
  return scheme != std::string::npos && scheme > 0 && scheme + 3 < origin.size() &&
         std::all_of(origin.begin(), origin.begin() + static_cast<std::ptrdiff_t>(scheme), is_plain) &&
         std::all_of(origin.begin() + static_cast<std::ptrdiff_t>(scheme) + 3, origin.end(), is_plain);
}

std::string allowed_origin(const AccessRules& rules, const HttpRequest& request) {
  const std::string_view origin = request.header("origin");
  const bool is_allowed =
      std::find(rules.cors_origins.begin(), rules.cors_origins.end(), origin) != rules.cors_origins.end();
  return is_allowed ? std::string(origin) : "";
}

std::optional<HttpResponse> answer_preflight(const HttpRequest& request) {
  if (request.cors_origin.empty() || request.method != "OPTIONS" ||
      request.header("access-control-request-method").empty()) {
    return std::nullopt;
  }
  HttpResponse response = {.status = 204, .body = ""};
  response.headers = {{"Access-Control-Allow-Methods", "GET, HEAD, POST, DELETE"},
                      {"Access-Control-Allow-Headers", "Authorization, *"},
                      {"Access-Control-Max-Age", "600"}};
  // Browsers also ask this before a page of the public network may reach a private one.
  if (!request.header("access-control-request-private-network").empty()) {
    response.headers.emplace_back("Access-Control-Allow-Private-Network", "true");
  }
  return response;
}

bool is_equal_in_constant_time(std::string_view given, std::string_view secret) {
  unsigned different = given.size() == secret.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    const char expected = secret.empty() ? '\0' : secret[i % secret.size()];
    different |= static_cast<unsigned char>(given[i] ^ expected);
  }
  return different == 0;
}

std::string find_user(const AccessRules& rules, const HttpRequest& request) {
  const std::string_view given = bearer_token(request.header("authorization"));
  const HttpKey* found = nullptr;
  for (const HttpKey& key : rules.keys) found = is_equal_in_constant_time(given, key.secret) ? &key : found;
  return found == nullptr ? "" : found->user;
}

bool is_sound_target(std::string_view target) {
  const std::string_view path = target.substr(0, target.find('?'));
  for (const char c : target) {
    if (static_cast<unsigned char>(c) <= 0x20 || c == 0x7f) return false;
  }
  for (size_t at = path.find('%'); at != std::string_view::npos; at = path.find('%', at + 1)) {
    if (at + 2 >= path.size()) return false;
    const char high = path[at + 1], low = path[at + 2];
    if (!std::isxdigit(static_cast<unsigned char>(high)) || !std::isxdigit(static_cast<unsigned char>(low))) {
      return false;
    }
    if (high == '0' || high == '1' || (high == '7' && (low == 'f' || low == 'F'))) return false;
  }
  return !path.empty() && path.front() == '/';
}

std::optional<HttpResponse> refuse_access(const AccessRules& rules, const HttpRequest& request, bool is_open_path) {
  const bool is_open = rules.token.empty() && rules.keys.empty();
  if (is_open && !names_loopback(request.header("host"))) {
    return error_response(403, "This server answers to the names of this machine only: localhost, 127.0.0.1, [::1].",
                          "permission_error", "host_not_allowed");
  }
  if (is_cross_site(request)) return refuse_origin();
  if (is_open || is_open_path) return std::nullopt;
  if (!rules.keys.empty()) {
    if (!request.user.empty()) return std::nullopt;
    const bool has_key = !bearer_token(request.header("authorization")).empty();
    return refuse_unknown(has_key ? "This API key is none of the server's."
                                  : "An API key is needed: as 'Authorization: Bearer KEY'.");
  }
  if (is_equal_in_constant_time(bearer_token(request.header("authorization")), rules.token)) return std::nullopt;
  if (is_equal_in_constant_time(cookie_value(request.header("cookie"), rules.cookie_name), rules.token)) {
    if (request.argument("token").empty() || !is_read_only(request)) return std::nullopt;
  }
  if (is_equal_in_constant_time(request.argument("token"), rules.token)) {
    if (!is_read_only(request)) return std::nullopt;
    return keep_token_in_cookie(rules, location_without_token(request));
  }
  if (asks_for_page(request)) {
    return ask_for_token(location_without_token(request), /*is_wrong=*/!request.argument("token").empty());
  }
  return refuse_unknown("A token is needed: as 'Authorization: Bearer TOKEN', or in a browser as /?token=TOKEN.");
}

}  // namespace ocellus::app
