// Bodies of forms with files: multipart/form-data (RFC 7578).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ocellus::app {

struct FormPart {
  std::string name;
  std::optional<std::string> filename;  // set if it is a file
  std::string_view value;               // in the body
};

// Returns the parts of a body with this Content-Type, at most 16. Throws a RequestError for anything else.
std::vector<FormPart> parse_multipart(std::string_view body, std::string_view content_type);

}  // namespace ocellus::app
