#include "apps/watch/condition.h"

#include <algorithm>
#include <regex>

#include "apps/base/bounded_json.h"
#include "apps/base/failure.h"
#include "apps/base/plain_text.h"

namespace ocellus::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxBytes = 500;

// Returns a discarded value for what is none.
Json parse_value(const std::string& text) {
  const bool is_quoted = text.find_first_of("\"'") == 0;
  return is_quoted ? Json(text.substr(1, text.size() - 2)) : read_json(text.empty() ? "true" : text, kLocalJson);
}

bool contains(const Json& value, const Json& wanted) {
  if (value.is_string()) return wanted.is_string() && value.get<std::string>().find(wanted) != std::string::npos;
  return value.is_structured() && std::any_of(value.begin(), value.end(), [&wanted](const Json& inner) {
           return inner == wanted || (inner.is_structured() && contains(inner, wanted));
         });
}

}  // namespace

Json parse_answer(const std::string& text, bool is_ended) {
  const Json answer = read_json(text, kLocalJson);
  return answer.is_discarded() || (!is_ended && answer.is_number()) ? nullptr : answer;
}

std::optional<Json> find_value(const Json& answer, const std::string& field) {
  std::string path = "/" + field;
  std::replace(path.begin(), path.end(), '.', '/');
  try {
    const Json::json_pointer pointer(path);
    const Json& parent = answer.at(pointer.parent_pointer());
    return parent.is_array() && pointer.back() == "length" ? Json(parent.size()) : answer.at(pointer);
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

Condition::Condition(const std::string& text) : text_(text), alternatives_(1) {
  static const std::regex kForm(
      R"(\s*([\w.-]+)(?:\s*(==|!=|<=|>=|<|>|\scontains\s)\s*("[^"]*"|'[^']*'|[\w.+-]+))?(?:\s+(and|or)\s|\s*$))");
  std::smatch parts;
  for (auto at = text.begin(); at == text.begin() || parts[4].matched; at = parts[0].second) {
    const bool fits = text.size() <= kMaxBytes &&
                      std::regex_search(at, text.end(), parts, kForm, std::regex_constants::match_continuous);
    const Json value = fits ? parse_value(parts[3]) : Json();
    const std::string how = fits && parts[2].matched ? trim(parts[2].str()) : "==";
    const bool is_order = how[0] == '<' || how[0] == '>';
    if (!fits || value.is_discarded() || (is_order && !value.is_number() && !value.is_string())) {
      throw Failure(kExitUsage, "--on " + text + ": at character " + std::to_string(at - text.begin() + 1) +
                                    ": write comparisons as in count > 3 and what == 'dog' or alarm.");
    }
    alternatives_.back().push_back({parts[1], how, value});
    if (parts[4] == "or") alternatives_.emplace_back();
  }
}

bool Condition::Comparison::holds_in(const Json& answer, std::string* missing) const {
  const auto found = find_value(answer, field);
  if (!found) *missing = field;
  if (!found) return false;
  if (how == "contains") return contains(*found, value);
  const bool is_equal = *found == value;
  if (how == "!=") return !is_equal;
  if (is_equal) return how.back() == '=';
  const bool has_order = found->is_number() ? value.is_number() : found->is_string() && value.is_string();
  return has_order && how[0] == (*found < value ? '<' : '>');
}

bool Condition::holds_in(const Json& answer, std::string* missing) const {
  return std::any_of(alternatives_.begin(), alternatives_.end(), [=, &answer](const auto& all) {
    return std::all_of(all.begin(), all.end(), [=, &answer](const auto& one) { return one.holds_in(answer, missing); });
  });
}

}  // namespace ocellus::app
