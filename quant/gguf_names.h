// Checks of names that come from a file and appear in error sentences.
#pragma once

#include <cstdint>
#include <string_view>

namespace ocellus {

/// True if the bytes are well-formed UTF-8 without control characters: no NUL and no escape sequence passes.
bool is_printable_utf8(std::string_view text);

/// Number of bytes of a UTF-8 name that a sentence shows: all, or as many whole characters as fit 64 bytes.
int shown_bytes(std::string_view name);

}  // namespace ocellus
