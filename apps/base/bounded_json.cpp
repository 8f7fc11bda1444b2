#include "apps/base/bounded_json.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace ocellus::app {
namespace {

using Json = nlohmann::ordered_json;

// Calls look(c) for each character outside strings, until it returns false.
template <typename Look>
void scan(std::string_view text, Look look) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i) i += text[i] == '\\' ? 1 : 0;
    } else if (!look(text[i])) {
      return;
    }
  }
}

// The place of a character by its number, from 1.
std::string place_text(std::string_view text, size_t byte) {
  const std::string_view before = text.substr(0, byte > 0 ? byte - 1 : 0);
  const size_t line_begin = before.rfind('\n') + 1;  // 0 without one
  return ": line " + std::to_string(std::count(before.begin(), before.end(), '\n') + 1) + ", column " +
         std::to_string(before.size() - line_begin + 1);
}

int64_t count_members(const Json& tree) {
  int64_t count = tree.is_object() ? std::ssize(tree) : 0;
  for (const Json& inner : tree) count += inner.is_structured() ? count_members(inner) : 0;
  return count;
}

}  // namespace

std::optional<std::string> find_json_excess(std::string_view text, const JsonLimits& limits) {
  int64_t values = 0, depth = 0;
  std::vector<int64_t> members(static_cast<size_t>(limits.depth) + 2);  // one count for each object that is open
  std::optional<std::string> excess;
  scan(text, [&](char c) {
    values += c == ',' || c == '[' || c == '{' ? 1 : 0;
    depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
    if (depth > limits.depth || values > limits.values) {
      excess =
          "has more than " + std::to_string(limits.values) + " values or " + std::to_string(limits.depth) + " levels";
      return false;
    }
    int64_t& own = members[static_cast<size_t>(std::max<int64_t>(depth, 0))];
    own = c == '{' ? 0 : own + (c == ':' ? 1 : 0);
    if (own <= limits.members) return true;
    excess = "has an object with more than " + std::to_string(limits.members) + " members";
    return false;
  });
  return excess;
}

Json read_json(std::string_view text, const JsonLimits& limits, std::string* problem) {
  std::string why = find_json_excess(text, limits).value_or("");
  if (why.empty()) {
    try {
      return Json::parse(text);
    } catch (const Json::exception& error) {
      const auto* const place = dynamic_cast<const Json::parse_error*>(&error);
      why = "is not valid JSON in UTF-8" + (place != nullptr ? place_text(text, place->byte) : "");
    }
  }
  if (problem != nullptr) *problem = std::move(why);
  return Json(Json::value_t::discarded);
}

std::optional<std::string> find_repeated_member(std::string_view text, const Json& tree) {
  int64_t written = 0;
  scan(text, [&written](char c) {
    written += c == ':' ? 1 : 0;
    return true;
  });
  if (written == count_members(tree)) return std::nullopt;
  std::optional<std::string> repeated;
  std::vector<std::set<std::string>> names(1);  // one set for each object that is open
  const auto look = [&](int /*depth*/, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) names.emplace_back();
    if (event == Json::parse_event_t::object_end) names.pop_back();
    if (event != Json::parse_event_t::key) return true;
    std::string name = parsed.get<std::string>();
    if (!repeated && !names.back().insert(name).second) repeated = std::move(name);
    return true;
  };
  [[maybe_unused]] const Json again = Json::parse(text, look, /*allow_exceptions=*/false);
  return repeated;
}

}  // namespace ocellus::app
