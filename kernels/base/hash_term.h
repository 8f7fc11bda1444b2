#pragma once

#include <cstdint>

#include "platform/round_up.h"

namespace ocellus {

/// The output function of SplitMix64 (Steele, Lea and Flood 2014), a bijection.
OCELLUS_EVERYWHERE constexpr uint64_t mix_bits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/// One term of a hash that is the sum of the terms of all values modulo 2^64, so that it may be added up in any order.
/// Equal bits give equal hashes; -0 and 0 differ.
OCELLUS_EVERYWHERE constexpr uint64_t hash_term(uint32_t index, uint32_t bits) {
  return mix_bits((uint64_t{index} << 32 | bits) + 0x9E3779B97F4A7C15u);
}

}  // namespace ocellus
