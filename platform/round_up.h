// Sizes in whole units.
#pragma once

#include <cstdint>

namespace ocellus {

/// The least multiple of `unit` (1 at least) that is no less than `value` (0 at least).
constexpr int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace ocellus
