#include "apps/serve/unknown_fields.h"

#include <algorithm>

#include "apps/base/plain_text.h"
#include "apps/serve/request_error.h"

namespace ocellus::app {
namespace {

constexpr size_t kMaxUnknown = 32;  // places of one request
constexpr size_t kMaxNotedFields = 32;
constexpr size_t kMaxNotedBytes = 64;

bool has(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::optional<RefusedField> find_refused(const FieldRules& rules, std::string_view name) {
  const auto is_it = [name](const RefusedField& field) { return field.name == name; };
  const auto found = std::find_if(rules.refused.begin(), rules.refused.end(), is_it);
  if (found != rules.refused.end()) return *found;
  if (rules.media.empty() || !has(kMediaFields, name)) return std::nullopt;
  return RefusedField{.name = name, .instead = rules.media};
}

bool asks_for_nothing(const RequestJson& value, std::string_view neutral) {
  if (!neutral.empty()) {
    const RequestJson values = RequestJson::parse(neutral);
    return std::find(values.begin(), values.end(), value) != values.end();
  }
  if (value.is_number()) return value.get<double>() == 0;
  return value.is_null() || value == "" || (value.is_structured() && value.empty()) || value == false;
}

std::string name_place(std::string_view instead, const std::string& object) {
  std::string text;
  for (const char c : instead) c == '@' ? text += object : text += c;
  return text;
}

}  // namespace

RequestError unsupported_field(const std::string& place, const std::string& instead) {
  const std::string hint = instead.empty() ? "." : ": use " + instead + ".";
  return RequestError(400, shorten(place) + " is not supported by this server" + hint, place, "unsupported_parameter");
}

void note_unknown(const std::string& place, FieldNames* unknown) {
  if (unknown->size() < kMaxUnknown) unknown->push_back(shorten(place, 200));
}

void check_fields(const RequestJson& object, const std::string& at, const FieldRules& rules, FieldNames* unknown) {
  const std::string before = at.empty() ? "" : at + ".";
  for (const auto& [name, value] : object.items()) {
    if (value.is_null() || has(rules.known, name) || has(rules.also, name)) continue;
    const std::optional<RefusedField> refused = find_refused(rules, name);
    if (!refused) {
      note_unknown(before + name, unknown);
    } else if (!asks_for_nothing(value, refused->neutral)) {
      throw unsupported_field(before + name, name_place(refused->instead, before));
    }
  }
}

void UnknownFields::take(const FieldNames& places) {
  for (const std::string& place : places) {
    if (options_.strict) {
      throw RequestError(400, shorten(place) + " is not a field of a request.", place, "unknown_parameter");
    }
    note(place);
  }
}

// Notes each field once, whichever message has it, up to a limit, so that no client can fill the log.
void UnknownFields::note(const std::string& place) {
  std::string shown;
  for (const char c : place) {
    const bool is_index = c >= '0' && c <= '9' && shown.ends_with('[');
    if (!is_index) shown += c;
  }
  shown = shorten(shown, kMaxNotedBytes);
  note_once("requests have the unknown field " + shown + ": it is ignored");
}

void UnknownFields::note_once(const std::string& words) {
  if (!options_.note || noted_.size() >= kMaxNotedFields) return;
  if (noted_.insert(words).second) options_.note(words);
}

}  // namespace ocellus::app
