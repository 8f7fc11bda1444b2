// Formats of JSON schemas.
#pragma once

#include <string_view>

#include "runtime/grammar/grammar.h"

namespace ocellus {

/// Adds a format's strings, without quotes: date, time, date-time (RFC 3339, years 1 to 9999, seconds to 59, days that
/// exist), duration (ISO 8601), uuid, email, ipv4, ipv6, hostname (RFC 1123), uri (RFC 3986, with a host). A part of
/// them where they may be long. kUnsupported for others.
Status add_format(std::string_view name, Grammar* grammar, Expression* out);

/// True if each of these strings has that number of characters; false for a format that is not there.
bool fits_format(std::string_view name, int32_t least, int32_t most);

}  // namespace ocellus
