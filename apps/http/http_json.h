// Bodies of requests that are JSON.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>

#include "apps/base/bounded_json.h"
#include "apps/http/http_server.h"

namespace ocellus::app {

// Reads the body, a JSON object with Content-Type: application/json, which pages of other sites cannot send without a
// preflight. Returns false if it is not one, or too large; the exchange is then answered.
bool read_json_body(const std::shared_ptr<HttpExchange>& exchange, nlohmann::ordered_json* object,
                    const JsonLimits& limits = {});

}  // namespace ocellus::app
