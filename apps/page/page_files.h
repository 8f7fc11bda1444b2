// The embedded files of the page of `ocellus watch --http`.
#pragma once

#include <span>
#include <string_view>

namespace ocellus::app {

struct PageFile {
  std::string_view path;          // URL path: "/", "/watch.css", ...
  std::string_view content_type;  // value of the Content-Type header
  std::string_view content;
};

// Returns all files; static storage.
std::span<const PageFile> page_files();

}  // namespace ocellus::app
