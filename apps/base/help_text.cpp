#include "apps/base/help_text.h"

#include <algorithm>

namespace ocellus::app {
namespace {

// The parser puts explanations of flags in this column.
constexpr size_t kExplanationColumn = 30;

size_t indent_of(std::string_view line) {
  const size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const bool explains = line.size() > kExplanationColumn && line[kExplanationColumn - 1] == ' ' &&
                        line[kExplanationColumn] != ' ' && line.starts_with("  ");
  return explains ? kExplanationColumn : begin;
}

void append_wrapped(std::string line, std::string* out) {
  const size_t indent = indent_of(line);
  const bool is_flag = line.starts_with("  -") && indent != kExplanationColumn;
  while (line.size() > kHelpColumns && !is_flag) {
    size_t end = line.rfind(' ', kHelpColumns);
    if (end == std::string::npos || end <= indent) end = line.find(' ', indent + 1);
    if (end == std::string::npos) break;
    out->append(line, 0, end).append("\n");
    line = std::string(indent, ' ') + line.substr(end + 1);
  }
  out->append(line).append("\n");
}

}  // namespace

std::string wrap_help(std::string_view text) {
  std::string wrapped;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    append_wrapped(std::string(text.substr(0, end)), &wrapped);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return wrapped;
}

}  // namespace ocellus::app
