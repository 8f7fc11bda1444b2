// Formats of JSON schemas.
#pragma once

#include <string_view>

#include "runtime/grammar/grammar.h"

namespace ocellus {

/// Adds a format's strings, without quotes: date, time, date-time (RFC 3339, years 1 to 9999, seconds to 59, days that
/// exist), uuid, email, ipv4, ipv6, hostname (RFC 1123), uri (RFC 3986, with a host). A part of them where they may be
/// long. kUnsupported for others.
Status add_format(std::string_view name, Grammar* grammar, Expression* out);

}  // namespace ocellus
