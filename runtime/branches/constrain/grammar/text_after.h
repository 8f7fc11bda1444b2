// text_after: std::string_view::substr without the exception, which the library must not link.
#pragma once

#include <algorithm>
#include <string_view>

namespace ocellus {

/// The text from a byte on; empty after its end.
inline std::string_view text_after(std::string_view text, size_t byte) {
  text.remove_prefix(std::min(byte, text.size()));
  return text;
}

}  // namespace ocellus
