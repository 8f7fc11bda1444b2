// Byte-level UTF-8 helpers for vocabularies and prompts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "platform/utf8.h"

namespace ocellus {

/// Returns the part of `text` from `begin` on, at most `count` bytes. Empty if `begin` is after the end, where substr
/// would throw.
inline std::string_view slice(std::string_view text, size_t begin, size_t count = std::string_view::npos) {
  text.remove_prefix(std::min(begin, text.size()));
  return {text.data(), std::min(count, text.size())};
}

}  // namespace ocellus
