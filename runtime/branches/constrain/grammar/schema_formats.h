// Formats of JSON schemas.
#pragma once

#include <string_view>

#include "runtime/branches/constrain/grammar/grammar.h"

namespace ocellus {

/// True for date, time, date-time (RFC 3339, years 1 to 9999, seconds to 59, days that exist), duration (ISO 8601),
/// uuid and those of one version (uuid1 to uuid8), email, ipv4, ipv6, hostname (RFC 1123), uri (RFC 3986, with a host),
/// their international forms, uri-reference, json-pointer (RFC 6901), ipvanyaddress and base64. All other names
/// annotate.
bool is_format(std::string_view name);

struct FormatOptions {
  bool in_json_string = false;  // as JSON spells them
  bool is_counted = false;      // they have a most number of characters besides
};

/// Adds the strings of a format that there is, without quotes: a part of them where they may be long.
Status add_format(std::string_view name, const FormatOptions& options, Grammar* grammar, Expression* out);

}  // namespace ocellus
