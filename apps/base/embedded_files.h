// Files inside the program, put there by tools/cmake/embed.cmake.
#pragma once

#include <span>
#include <string_view>

namespace ocellus::app {

struct EmbeddedFile {
  std::string_view path;          // URL path of the page's: "/", "/watch.css", ...; a schema's name
  std::string_view content_type;  // value of the Content-Type header
  std::string_view content;
};

// Return what pages share, the pages of `watch` and `serve`, that for a token with its script, and the schemas that
// have names; static storage.
std::span<const EmbeddedFile> page_files();
std::span<const EmbeddedFile> watch_files();
std::span<const EmbeddedFile> talk_files();
std::span<const EmbeddedFile> token_files();
std::span<const EmbeddedFile> schema_files();

}  // namespace ocellus::app
