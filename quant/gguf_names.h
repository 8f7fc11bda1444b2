// Names that come from a file and end up in sentences.
#pragma once

#include <cstdint>
#include <string_view>

namespace ocellus {

/// True if the bytes are well-formed UTF-8 without control characters. No NUL, no escape sequence gets past it.
bool is_printable_utf8(std::string_view text);

/// How many bytes of a UTF-8 name a sentence shows: all, or as many whole characters as 64 bytes hold.
int shown_bytes(std::string_view name);

}  // namespace ocellus
