// JSON from clients: its cost as a tree is checked before the tree is built.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "apps/http/http_server.h"

namespace ocellus::app {

struct JsonLimits {
  int64_t values = 1000;   // maximum number of values; each takes up to 150 bytes as a tree, besides its text
  int64_t depth = 32;      // maximum nesting of arrays and objects
  int64_t members = 2000;  // maximum of an object: each is compared with those before it
};

// Scans the text once and keeps nothing. Returns a sentence if a limit is exceeded; the text need not be valid JSON.
std::optional<std::string> find_json_excess(std::string_view text, const JsonLimits& limits);

// Reads the body, a JSON object with Content-Type: application/json, which pages of other sites cannot send without a
// preflight. Returns false if it is not one, or too large; the exchange is then answered.
bool read_json_body(const std::shared_ptr<HttpExchange>& exchange, nlohmann::ordered_json* object,
                    const JsonLimits& limits = {});

}  // namespace ocellus::app
