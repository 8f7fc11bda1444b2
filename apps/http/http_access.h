// Who may ask for what: the rules that come before any handler.
#ifndef OCELLUS_APPS_HTTP_HTTP_ACCESS_H_
#define OCELLUS_APPS_HTTP_HTTP_ACCESS_H_

#include <optional>
#include <string>
#include <string_view>

#include "apps/http/http_server.h"

namespace ocellus::app {

struct AccessRules {
  std::string token;        // empty: none
  std::string cookie_name;  // of the cookie that holds the token; one for each port, because browsers share them
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

// The answer to a request that may not go on to its handler. Without a token, only names of this machine are accepted
// as Host (a page elsewhere could have its own name lead here), and no page of another origin may change anything.
std::optional<HttpResponse> refuse_access(const AccessRules& rules, const HttpRequest& request, bool is_open_path);

}  // namespace ocellus::app

#endif  // OCELLUS_APPS_HTTP_HTTP_ACCESS_H_
