// Checked access to the fields of a JSON request. All throw a RequestError that names the field.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace ocellus::app {

using RequestJson = nlohmann::ordered_json;  // a schema's members have an order

// Refuses text that would take much memory as a tree: long text, many or deeply nested values.
RequestJson parse_request_json(std::string_view body);

// Returns nullptr if the field is missing or null.
const RequestJson* find_field(const RequestJson& object, const std::string& name);

std::string expect_string(const RequestJson& value, const std::string& param);
bool expect_bool(const RequestJson& value, const std::string& param);
void expect_object(const RequestJson& value, const std::string& param);

// Returns nullopt if the field is missing or null.
std::optional<double> number_field(const RequestJson& object, const std::string& name, double low, double high);
std::optional<int64_t> integer_field(const RequestJson& object, const std::string& name, int64_t low, int64_t high);
bool bool_field(const RequestJson& object, const std::string& name);  // false if missing

}  // namespace ocellus::app
