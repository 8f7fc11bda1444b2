#include "apps/serve/json_fields.h"

#include <cmath>
#include <limits>

#include "apps/base/plain_text.h"
#include "apps/serve/request_error.h"

namespace ocellus::app {
namespace {

std::string format_limit(double value) {
  std::string text = RequestJson(value).dump();
  return text.size() > 2 && text.substr(text.size() - 2) == ".0" ? text.substr(0, text.size() - 2) : text;
}

}  // namespace

RequestJson parse_request_json(std::string_view body) {
  if (std::ssize(body) > kMaxJsonBytes) {
    check_json_size(body);
    throw too_much_json();
  }
  if (body.empty()) throw RequestError(400, "The body is empty: it must be a JSON object.");
  std::string problem;
  RequestJson json = read_json(body, kRequestJson, &problem);
  if (json.is_discarded()) throw RequestError(400, "The body " + problem + ".");
  if (!json.is_object()) throw RequestError(400, "The body must be a JSON object.");
  if (const auto name = find_repeated_member(body, json)) {
    throw RequestError(400, "An object in the body has two members " + shorten(*name) + ".", *name);
  }
  return json;
}

void check_json_size(std::string_view body) {
  if (const auto excess = find_json_excess(body, kRequestJson)) throw RequestError(400, "The body " + *excess + ".");
}

RequestError too_much_json() {
  return RequestError(413,
                      "The request has more than " + std::to_string(kMaxJsonBytes) + " bytes besides its pictures.",
                      "messages", "body_too_large");
}

const RequestJson* find_field(const RequestJson& object, const std::string& name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string expect_string(const RequestJson& value, const std::string& param) {
  if (!value.is_string()) throw RequestError(400, param + " must be a string.", param);
  return value.get<std::string>();
}

bool expect_bool(const RequestJson& value, const std::string& param) {
  if (!value.is_boolean()) throw RequestError(400, param + " must be true or false.", param);
  return value.get<bool>();
}

void expect_object(const RequestJson& value, const std::string& param) {
  if (!value.is_object()) throw RequestError(400, param + " must be an object.", param);
}

std::optional<int64_t> whole_number(const RequestJson& value) {
  constexpr double kMostExact = 9007199254740992;  // larger ones may have been rounded
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (!(std::abs(number) <= kMostExact) || number != std::trunc(number)) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() ||
                     value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  return fits ? std::optional(value.get<int64_t>()) : std::nullopt;
}

std::optional<double> number_field(const RequestJson& object, const std::string& name, double low, double high) {
  const RequestJson* value = find_field(object, name);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : std::numeric_limits<double>::quiet_NaN();
  if (!(number >= low && number <= high)) {
    throw RequestError(
        400, name + " must be a number between " + format_limit(low) + " and " + format_limit(high) + ".", name);
  }
  return number;
}

std::optional<int64_t> integer_field(const RequestJson& object, const std::string& name, int64_t low, int64_t high) {
  const RequestJson* value = find_field(object, name);
  if (value == nullptr) return std::nullopt;
  const std::optional<int64_t> number = whole_number(*value);
  if (!number || *number < low || *number > high) {
    throw RequestError(
        400, name + " must be a whole number between " + std::to_string(low) + " and " + std::to_string(high) + ".",
        name);
  }
  return number;
}

bool bool_field(const RequestJson& object, const std::string& name, const std::string& before) {
  const RequestJson* value = find_field(object, name);
  return value != nullptr && expect_bool(*value, before + name);
}

}  // namespace ocellus::app
