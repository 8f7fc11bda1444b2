#include "apps/http/http_head.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "apps/base/plain_text.h"

namespace ocellus::app {
namespace {

constexpr size_t kLineEndBytes = 2;  // CRLF

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return c < 128 && (std::isalnum(c) != 0 || (c != 0 && std::strchr("!#$%&'*+-.^_`|~", c) != nullptr));
  });
}

bool has_control_byte(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return (c < 0x20 && c != '\t') || c == 0x7f; });
}

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// True for a name or address with an optional port; not for lists, paths or user names.
bool is_host(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return c < 128 && (std::isalnum(c) != 0 || (c != 0 && std::strchr("-._~%:[]", c) != nullptr));
  });
}

std::vector<std::string_view> values_of(const RequestHead& head, std::string_view name) {
  std::vector<std::string_view> values;
  for (const HeadField& field : head.fields) {
    if (to_lower(field.name) == name) values.push_back(field.value);
  }
  return values;
}

}  // namespace

std::optional<std::string> find_ambiguity(const RequestHead& head) {
  if (!is_token(head.method)) return "The method of the request is malformed.";
  if (head.version != "HTTP/1.1" && head.version != "HTTP/1.0") return "The version of HTTP is malformed.";
  for (const HeadField& field : head.fields) {
    if (!is_token(field.name)) return "The name of a header is malformed.";
    if (has_control_byte(field.value)) return "A header has control bytes.";
  }
  const auto hosts = values_of(head, "host");
  if (hosts.size() > 1) return "The Host header is given more than once.";
  if (head.version == "HTTP/1.1" && (hosts.empty() || hosts[0].empty())) return "The Host header is missing.";
  if (!hosts.empty() && !is_host(hosts[0])) return "The Host header is malformed.";
  // Another program could read the one of two that this one does not.
  for (const char* name : {"authorization", "origin", "sec-fetch-site", "sec-fetch-mode", "content-type"}) {
    if (values_of(head, name).size() > 1) return "The header " + std::string(name) + " is given more than once.";
  }
  const auto lengths = values_of(head, "content-length");
  const auto encodings = values_of(head, "transfer-encoding");
  if (lengths.size() > 1) return "The Content-Length header is given more than once.";
  if (!lengths.empty() && !is_number(lengths[0])) return "The Content-Length header is not a number.";
  if (encodings.empty()) return std::nullopt;
  if (!lengths.empty()) return "Content-Length and Transfer-Encoding exclude each other.";
  if (encodings.size() > 1 || to_lower(encodings[0]) != "chunked" || head.version == "HTTP/1.0") {
    return "The only supported Transfer-Encoding is chunked, with HTTP/1.1.";
  }
  return std::nullopt;
}

bool lies_as_received(const RequestHead& head, size_t received_bytes) {
  const auto end_of = [](std::string_view text) { return text.data() + text.size(); };
  if (head.target.data() != end_of(head.method) + 1 || head.version.data() != end_of(head.target) + 1) return false;
  const char* next = end_of(head.version) + kLineEndBytes;
  for (const HeadField& field : head.fields) {
    if (field.name.data() != next || field.value.data() < end_of(field.name) + 1) return false;
    next = end_of(field.value) + kLineEndBytes;
  }
  return next + kLineEndBytes == head.method.data() + received_bytes;
}

}  // namespace ocellus::app
