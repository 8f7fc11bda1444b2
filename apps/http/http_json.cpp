#include "apps/http/http_json.h"

#include <algorithm>
#include <vector>

namespace ocellus::app {

std::optional<std::string> find_json_excess(std::string_view text, const JsonLimits& limits) {
  int64_t values = 0, depth = 0;
  std::vector<int64_t> members(static_cast<size_t>(limits.depth) + 2);  // one count for each object that is open
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i) i += text[i] == '\\' ? 1 : 0;
      continue;
    }
    values += c == ',' || c == '[' || c == '{' ? 1 : 0;
    depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
    if (depth > limits.depth || values > limits.values) {
      return "The JSON has more than " + std::to_string(limits.values) + " values or " + std::to_string(limits.depth) +
             " levels.";
    }
    int64_t& own = members[static_cast<size_t>(std::max<int64_t>(depth, 0))];
    own = c == '{' ? 0 : own + (c == ':' ? 1 : 0);
    if (own > limits.members)
      return "An object in the JSON has more than " + std::to_string(limits.members) + " members.";
  }
  return std::nullopt;
}

bool read_json_body(const std::shared_ptr<HttpExchange>& exchange, nlohmann::ordered_json* object,
                    const JsonLimits& limits) {
  const HttpRequest& request = exchange->request();
  const auto refuse = [&exchange](const std::string& sentence) {
    exchange->respond(error_response(400, sentence));
    return false;
  };
  if (request.header("content-type").substr(0, 16) != "application/json") {
    return refuse("The body must be JSON, with Content-Type: application/json.");
  }
  if (const auto excess = find_json_excess(request.body, limits)) return refuse(*excess);
  *object = nlohmann::ordered_json::parse(request.body, nullptr, /*allow_exceptions=*/false);
  if (object->is_discarded() || !object->is_object()) return refuse("The body must be a JSON object.");
  return true;
}

}  // namespace ocellus::app
