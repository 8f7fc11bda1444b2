// Checked access to the fields of a JSON request. All throw a RequestError that names the field.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "apps/base/bounded_json.h"
#include "apps/serve/request_error.h"

namespace ocellus::app {

using RequestJson = nlohmann::ordered_json;  // a schema's members have an order

inline constexpr int64_t kMaxJsonBytes = 2 << 20;  // several times the text of the longest contexts
inline constexpr JsonLimits kRequestJson = {.values = 20'000};

// Refuses text that would take much memory as a tree (long text, many or deeply nested values), and members that an
// object has twice.
RequestJson parse_request_json(std::string_view body);
// Refuses too many and too deeply nested values, of a text that may have pictures.
void check_json_size(std::string_view body);
RequestError too_much_json();

// Returns nullptr if the field is missing or null.
const RequestJson* find_field(const RequestJson& object, const std::string& name);

std::string expect_string(const RequestJson& value, const std::string& param);
bool expect_bool(const RequestJson& value, const std::string& param);
void expect_object(const RequestJson& value, const std::string& param);

// Returns a whole number, also one that is written as 150.0; nullopt for anything else.
std::optional<int64_t> whole_number(const RequestJson& value);

// Returns nullopt if the field is missing or null.
std::optional<double> number_field(const RequestJson& object, const std::string& name, double low, double high);
std::optional<int64_t> integer_field(const RequestJson& object, const std::string& name, int64_t low, int64_t high);
// False if missing. `before`: the place of the object with its dot.
bool bool_field(const RequestJson& object, const std::string& name, const std::string& before = "");

}  // namespace ocellus::app
