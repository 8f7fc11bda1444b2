// The page of `serve`, at "/": talking with pictures in a browser, by the same API as every client.
#pragma once

#include "apps/http/http_server.h"

namespace ocellus::app {

// `is_open`: the page is sent without a key, and asks for one itself. It shows nothing of anybody.
void add_talk_page(HttpServer* server, bool is_open);

}  // namespace ocellus::app
