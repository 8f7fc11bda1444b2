// The page for browsers that come without the token: a field for it. It is posted to /token, which gives a cookie.
#pragma once

#include <string>

#include "apps/http/http_access.h"

namespace ocellus::app {

// Refuses a request with the page. `to`: path and query, percent-encoded, where its user goes then; "/" if they are
// long. `is_wrong`: a token came.
HttpResponse ask_for_token(const std::string& to, bool is_wrong);

// Keeps the token as a cookie, and sends the user to path and query `to`, percent-encoded.
HttpResponse keep_token_in_cookie(const AccessRules& rules, const std::string& to);

// Adds the page's paths, which are open. `rules` must outlive the server.
void add_token_page(HttpServer* server, const AccessRules* rules);

}  // namespace ocellus::app
