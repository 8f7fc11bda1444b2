// Codes of packed rows, one at a time.
#pragma once

#include <cstdint>

namespace ocellus::test {

/// Code of channel e in a packed row.
constexpr int32_t kv_code_at(const uint8_t* row, int32_t bits, int64_t e) {
  const int32_t per_byte = 8 / bits;
  const int32_t shift = bits * (per_byte - 1 - static_cast<int32_t>(e % per_byte));
  return (row[e / per_byte] >> shift) & ((1 << bits) - 1);
}

}  // namespace ocellus::test
