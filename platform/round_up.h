// Rounding of sizes to units.
#pragma once

#include <cstdint>

namespace ocellus {

/// Returns the least multiple of `unit` (at least 1) that is not below `value` (at least 0).
constexpr int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace ocellus
