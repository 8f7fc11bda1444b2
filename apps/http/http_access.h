// Access rules, checked before any handler.
//
// A browser also runs pages of other sites, which can send requests here. For every path and method, with and without
// a token:
// - Without a token or keys, Host must name this machine (localhost, 127.0.0.0/8, [::1]): another site's name could
// resolve to
//   it (DNS rebinding).
// - Origin, if sent, must be this server's own, or one of --cors.
// - Sec-Fetch-Site, if sent, must be "same-origin", or "none" (a typed address). Two more pass: pages of an origin of
//   --cors, and a link to "/" that opens a whole tab.
// Programs send neither of the last two. All answers carry Cross-Origin-Resource-Policy: same-origin for browsers that
// do not send Sec-Fetch-Site yet.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/http/http_server.h"

namespace ocellus::app {

struct AccessRules {
  std::string token;  // empty: none
  std::vector<HttpKey> keys = {};
  std::string cookie_name;  // cookie that holds the token; includes the port, because browsers share cookies between
                            // ports
  std::vector<std::string> cors_origins;  // origins whose pages may send requests and read the answers
};

bool is_numeric_address(const std::string& address);  // IPv4 or IPv6

// True if only this machine can reach the numeric address.
inline bool is_loopback_address(const std::string& address) {
  in_addr v4;
  in6_addr v6;
  if (inet_pton(AF_INET, address.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  return inet_pton(AF_INET6, address.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

// Returns the URLs at which a socket of the numeric address is reached: its own or, if it is that of all interfaces,
// those of 127.0.0.1 or ::1 and of the interfaces that run, up to eight, except addresses that need a zone.
std::vector<std::string> reached_urls(const std::string& address, int32_t port);

// True if a browser asks for something that it shows to its user.
bool asks_for_page(const HttpRequest& request);

// True for RFC 6750's b68token, which needs no escaping in headers and cookies.
bool is_sound_token(const std::string& token);

// Takes the same time for every `given` of one length, however much it has in common with `secret`.
bool is_equal_in_constant_time(std::string_view given, std::string_view secret);

// Returns the user of the key that the request carries, in the same time whichever key it is; empty if it is none.
std::string find_user(const AccessRules& rules, const HttpRequest& request);

// True if the target of the request line, as sent, has no control bytes in its path, plain or percent-encoded.
bool is_sound_target(std::string_view target);

// True for "https://example.com:8443": the form of Origin, but not "null".
bool is_sound_origin(const std::string& origin);

// Returns the request's Origin if --cors names it, else an empty text.
std::string allowed_origin(const AccessRules& rules, const HttpRequest& request);

// Answers a browser's preflight request for a page of an allowed origin. It carries no token.
std::optional<HttpResponse> answer_preflight(const HttpRequest& request);

// Returns the refusal of a request that may not reach its handler.
std::optional<HttpResponse> refuse_access(const AccessRules& rules, const HttpRequest& request, bool is_open_path);

}  // namespace ocellus::app
