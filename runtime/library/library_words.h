// What a person searches for, in the language of SQLite's full text search, where it can be nothing but words.
#pragma once

#include <string_view>

#include "platform/buffer.h"
#include "platform/status.h"

namespace ocellus {

/// Every word as a quoted phrase, any of which may be found: `red "cat` becomes `"red" OR """cat"`. Words end at spaces
/// and control characters. kBadArgument without words, or with more than kMostSearchWords or kMostSearchBytes.
Status quote_words(std::string_view words, Buffer<char>* out);

}  // namespace ocellus
