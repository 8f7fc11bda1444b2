// Who may ask for what: the rules that come before any handler.
//
// A browser runs pages of others beside ours, and those can send requests here, too. For every path and method, with a
// token and without one:
// - Host must name this machine (localhost, 127.0.0.0/8, [::1]) where there is no token: a page elsewhere could have a
//   name of its own lead here.
// - Origin, where it is sent, must be this server's own, or one of those that --cors names.
// - Sec-Fetch-Site, where it is sent, must be "same-origin", or "none": an address that was typed in. Two more pass:
//   pages of an origin that --cors names, and a link that somebody follows to "/", for a whole tab.
// Programs send neither of the last two. All answers carry Cross-Origin-Resource-Policy: same-origin for browsers that
// send Sec-Fetch-Site not yet.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/http/http_server.h"

namespace ocellus::app {

struct AccessRules {
  std::string token;        // empty: none
  std::string cookie_name;  // of the cookie that holds the token; one for each port, because browsers share them
  std::vector<std::string> cors_origins;  // whose pages may ask and read the answers
};

bool is_numeric_address(const std::string& address);  // IPv4 or IPv6

// Whether a numeric address is one that only this machine reaches.
bool is_loopback_address(const std::string& address);

// What a token may consist of: RFC 6750's b68token, which is safe in headers and cookies as it is.
bool is_sound_token(const std::string& token);

// Takes as long for every `given` of one length, whatever it has in common with `secret`.
bool is_equal_in_constant_time(std::string_view given, std::string_view secret);

// The target of the request line as it was sent: without control bytes, plain or percent-encoded, in its path.
bool is_sound_target(std::string_view target);

// "https://example.com:8443": what browsers send as Origin, but for "null".
bool is_sound_origin(const std::string& origin);

// The request's Origin if --cors names it, else nothing.
std::string allowed_origin(const AccessRules& rules, const HttpRequest& request);

// A browser's question whether a page of an allowed origin may ask, and its answer. It comes without the token.
std::optional<HttpResponse> answer_preflight(const HttpRequest& request);

// The answer to a request that may not go on to its handler.
std::optional<HttpResponse> refuse_access(const AccessRules& rules, const HttpRequest& request, bool is_open_path);

}  // namespace ocellus::app
