// The policy of a cache in the words of the flags, for reports.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "runtime/ocellus.h"

namespace ocellus::app {

nlohmann::ordered_json policy_json(const ocellus_limits& limits);
std::string describe_policy(const ocellus_limits& limits);

}  // namespace ocellus::app
