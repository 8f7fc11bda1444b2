// White space at the ends of texts, as chat templates remove it.
#pragma once

#include <string_view>

namespace ocellus {

/// Returns the text without the characters at its ends that Python's str.strip() removes. Bytes that are not UTF-8
/// stay.
std::string_view trim_white_space(std::string_view text);

}  // namespace ocellus
