// JSON from outside: from clients, models and files, also where it stands in a string of other JSON. What it costs as a
// tree, and how deep it nests, is checked before the tree is built: functions that walk one may call themselves.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace ocellus::app {

struct JsonLimits {
  int64_t values = 1000;   // maximum number of values; each takes up to 150 bytes as a tree, besides its text
  int64_t depth = 32;      // maximum nesting of arrays and objects
  int64_t members = 2000;  // maximum of an object: each is compared with those before it
};

// Limits for texts of this machine and of its models, which are bounded by what holds them.
inline constexpr JsonLimits kLocalJson = {.values = 100'000, .depth = 64};

// Scans the text once and keeps nothing. Returns what is wrong if a limit is exceeded, as "has more than 5 values"; the
// text need not be valid JSON.
std::optional<std::string> find_json_excess(std::string_view text, const JsonLimits& limits);

// Returns a discarded value for a text that is no JSON in UTF-8 or exceeds a limit. *problem then says why, as above,
// with the place: "is not valid JSON in UTF-8: line 2, column 6".
nlohmann::ordered_json read_json(std::string_view text, const JsonLimits& limits, std::string* problem = nullptr);

// Returns the name of a member that an object in the text has twice, of which a tree keeps only one; nullopt: there is
// none. `tree`: the text as read_json returns it.
std::optional<std::string> find_repeated_member(std::string_view text, const nlohmann::ordered_json& tree);

}  // namespace ocellus::app
