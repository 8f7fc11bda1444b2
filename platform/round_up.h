// Rounding of sizes to units.
#pragma once

#include <cstdint>
#include <type_traits>

#include "platform/everywhere.h"

namespace ocellus {

/// Returns the number of units of `unit` (1 at least) that hold `value` (0 at least).
template <class Integer>
OCELLUS_EVERYWHERE constexpr Integer divide_up(Integer value, std::type_identity_t<Integer> unit) {
  return (value + unit - 1) / unit;
}

/// The least multiple of `unit` (1 at least) that is no less than `value` (0 at least).
OCELLUS_EVERYWHERE constexpr int64_t round_up(int64_t value, int64_t unit) { return divide_up(value, unit) * unit; }

}  // namespace ocellus
