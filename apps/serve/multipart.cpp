#include "apps/serve/multipart.h"

#include <algorithm>

#include "apps/base/plain_text.h"
#include "apps/serve/request_error.h"

namespace ocellus::app {
namespace {

constexpr size_t kMaxParts = 16;
constexpr size_t kMaxHeadBytes = 4096;
constexpr size_t kMaxBoundaryBytes = 70;

RequestError malformed(const std::string& what) { return RequestError(400, "The multipart body " + what + "."); }

// Takes the text up to `end`, which is skipped; nullopt if it does not occur.
std::optional<std::string_view> take_until(std::string_view* text, std::string_view end) {
  const size_t at = text->find(end);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view taken = text->substr(0, at);
  text->remove_prefix(at + end.size());
  return taken;
}

// Takes a value that may be quoted, as in "a \"b\"".
std::string take_value(std::string_view* text) {
  std::string value;
  if (text->empty() || text->front() != '"') {
    const size_t end = std::min(text->find(';'), text->size());
    value = trim(text->substr(0, end));
    text->remove_prefix(end);
    return value;
  }
  size_t i = 1;
  for (; i < text->size() && (*text)[i] != '"'; ++i) {
    const bool is_escape =
        (*text)[i] == '\\' && i + 1 < text->size() && ((*text)[i + 1] == '"' || (*text)[i + 1] == '\\');
    value += (*text)[is_escape ? ++i : i];
  }
  text->remove_prefix(std::min(i + 1, text->size()));
  return value;
}

// Returns the value of `name` in "form-data; name=a; filename=b".
std::optional<std::string> find_parameter(std::string_view field, std::string_view name) {
  (void)take_value(&field);
  while (!field.empty()) {
    field.remove_prefix(std::min(field.find_first_not_of("; \t"), field.size()));
    const size_t equals = std::min(field.find_first_of("=;"), field.size());
    const std::string key = to_lower(trim(field.substr(0, equals)));
    field.remove_prefix(equals);
    if (field.empty() || field.front() != '=') continue;
    field.remove_prefix(1);
    std::string value = take_value(&field);
    if (key == name) return value;
  }
  return std::nullopt;
}

FormPart parse_part(std::string_view* body) {
  FormPart part;
  bool is_named = false;
  size_t head_bytes = 0;
  for (;;) {
    const std::optional<std::string_view> line = take_until(body, "\r\n");
    if (!line || (head_bytes += line->size()) > kMaxHeadBytes) throw malformed("has a part whose head does not end");
    if (line->empty()) break;
    constexpr std::string_view kDisposition = "content-disposition:";
    if (to_lower(line->substr(0, kDisposition.size())) != kDisposition) continue;
    const std::string_view value = line->substr(kDisposition.size());
    part.filename = find_parameter(value, "filename");
    const std::optional<std::string> name = find_parameter(value, "name");
    is_named = name.has_value();
    part.name = name.value_or("");
  }
  if (!is_named) throw malformed("has a part without a name");
  return part;
}

}  // namespace

std::vector<FormPart> parse_multipart(std::string_view body, std::string_view content_type) {
  constexpr std::string_view kType = "multipart/form-data";
  const std::string type = trim(content_type.substr(0, content_type.find(';')));
  if (to_lower(type) != kType) throw RequestError(400, "The body must be multipart/form-data.");
  const std::string boundary = find_parameter(content_type, "boundary").value_or("");
  if (boundary.empty() || boundary.size() > kMaxBoundaryBytes) {
    throw RequestError(400, "Content-Type must name a boundary of 1 to 70 bytes.");
  }
  const std::string first = "--" + boundary, next = "\r\n" + first;
  if (body.substr(0, first.size()) != first) throw malformed("does not begin with its boundary");
  body.remove_prefix(first.size());
  std::vector<FormPart> parts;
  while (body.substr(0, 2) != "--") {
    if (body.substr(0, 2) != "\r\n") throw malformed("has a boundary that is not on a line of its own");
    body.remove_prefix(2);
    if (parts.size() == kMaxParts) throw malformed("has more than " + std::to_string(kMaxParts) + " parts");
    parts.push_back(parse_part(&body));
    const std::optional<std::string_view> value = take_until(&body, next);
    if (!value) throw malformed("does not end with its boundary");
    parts.back().value = *value;
  }
  return parts;
}

}  // namespace ocellus::app
