// The files of the page of `ocellus watch --http`, inside the program.
#pragma once

#include <span>
#include <string_view>

namespace ocellus::app {

struct PageFile {
  std::string_view path;          // of the URL: "/", "/watch.css", ...
  std::string_view content_type;  // for the header of that name
  std::string_view content;
};

// Every file there is; they last as long as the program.
std::span<const PageFile> page_files();

}  // namespace ocellus::app
