// Checks against request smuggling. If two programs in a row (a proxy and this one) could read the head of a request in
// two ways, the second request of a connection could be forged: such heads get 400, and their connection ends. A
// connection also ends after a chunked body, because chunks are ambiguous as well.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ocellus::app {

struct HeadField {
  std::string_view name, value;
};

struct RequestHead {
  std::string_view method, target, version;
  std::vector<HeadField> fields;  // in order of arrival
};

// Returns a sentence on what is ambiguous or malformed: names that are no tokens, control bytes in values, Host missing
// (HTTP/1.1), headers given twice of which there can be one, Content-Length given twice, not a plain number, or
// together with Transfer-Encoding, a Transfer-Encoding other than "chunked".
std::optional<std::string> find_ambiguity(const RequestHead& head);

// libmicrohttpd 0.9 silently joins folded lines and takes a bare LF for the end of a line (1.0 refuses both). It parses
// in place, so the addresses of the parts show what stood between them. Returns true if the `received_bytes` from the
// method on were: METHOD SP target SP version CRLF, then name ":" spaces value CRLF for each field, then CRLF. Reads
// addresses only, no bytes.
bool lies_as_received(const RequestHead& head, size_t received_bytes);

}  // namespace ocellus::app
