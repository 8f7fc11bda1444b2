// The library's sentences in the words of the command line.
#pragma once

#include <string>

namespace ocellus::app {

// Replaces the names of the library's limits, "(max_tiles)" or "(evict, keep)", by those of the flags that set them.
std::string name_flags(std::string sentence);

}  // namespace ocellus::app
