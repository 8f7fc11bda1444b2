// The files of a page that is inside the program.
#pragma once

#include <span>

#include "apps/base/embedded_files.h"
#include "apps/http/http_server.h"

namespace ocellus::app {

// Answers with a file. Browsers load nothing for it from elsewhere.
HttpResponse send_page_file(const EmbeddedFile& file);

// Adds the files, and those that all pages share.
void add_page(HttpServer* server, std::span<const EmbeddedFile> files);

}  // namespace ocellus::app
