// Converts a user's search words to the language of SQLite's full text search, quoted so that they can only be words.
#pragma once

#include <string_view>

#include "platform/buffer.h"
#include "platform/status.h"

namespace ocellus {

/// Writes every word as a quoted phrase, any of which may match: `red "cat` becomes `"red" OR """cat"`. Words end at
/// spaces and control characters. kBadArgument without words, or with more than kMaxSearchWords or kMaxSearchBytes.
Status quote_words(std::string_view words, Buffer<char>* out);

}  // namespace ocellus
