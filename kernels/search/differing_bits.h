#pragma once

#include <cstdint>

#include "platform/views.h"

namespace ocellus {

/// Rows have a multiple of this many words.
inline constexpr int64_t kDifferingBitsWords = 8;

/// How far rows of bits are from a query:
///
///   distances[i] = number of bits in which rows[i] and query differ
///
/// Shapes    rows [N, W] words of 64 bits, W divisible by 8 and at most 512; query [W]; distances [N]
struct DifferingBitsArgs {
  HostView<const uint64_t> rows = {};
  const uint64_t* query = nullptr;
  uint16_t* distances = nullptr;
};
void differing_bits(const DifferingBitsArgs& args);

}  // namespace ocellus
