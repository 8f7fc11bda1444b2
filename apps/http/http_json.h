// JSON from clients: what it would take as a tree is known before the tree is made.
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
  int64_t values = 1000;  // of arrays and objects, together; each takes up to 150 bytes as a tree, besides its text
  int64_t depth = 32;     // arrays and objects within each other
};

// Reads the text once and keeps nothing. A sentence if it has more than that; the text need not be sound JSON.
std::optional<std::string> find_json_excess(std::string_view text, const JsonLimits& limits);

// The request's body, a JSON object with Content-Type: application/json, which pages of others cannot send without
// asking. False if it is not one, or too much; the exchange is then answered.
bool read_json_body(const std::shared_ptr<HttpExchange>& exchange, nlohmann::ordered_json* object,
                    const JsonLimits& limits = {});

}  // namespace ocellus::app
