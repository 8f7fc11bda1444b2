// The head of a request must say one thing only. Where two programs in a row (a proxy and this one) could read it in
// two ways, the second request of a connection could be one that nobody sent: such heads get 400, and their connection
// ends. After a body in chunks the connection ends, too, because chunks have such shapes as well.
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
  std::vector<HeadField> fields;  // as they came
};

// A sentence that says what is ambiguous or malformed: names that are no tokens, control bytes in values, Host missing
// (HTTP/1.1) or given twice, Content-Length given twice, no plain number, or beside Transfer-Encoding, another
// Transfer-Encoding than "chunked".
std::optional<std::string> find_ambiguity(const RequestHead& head);

// libmicrohttpd 0.9 joins folded lines and takes a bare LF for the end of a line, without a word (1.0 refuses both). It
// leaves what it has parsed where it was received, so that where the parts lie shows what stood between them. Whether
// the `received_bytes` from the method on were: METHOD SP target SP version CRLF, then name ":" spaces value CRLF for
// each field, then CRLF. Looks at no byte but at addresses only.
bool lies_as_received(const RequestHead& head, size_t received_bytes);

}  // namespace ocellus::app
