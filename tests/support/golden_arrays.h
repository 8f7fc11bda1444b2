// The arrays that belong to the reference answers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "quant/weight_format.h"
#include "tests/support/goldens.h"

namespace ocellus::test {

/// Reference numbers are stored as halves, which lie within 2.5e-4 of the float32 that was computed (relative error of
/// all together).
inline std::vector<float> read_halves(const std::string& path) {
  const std::vector<uint8_t> bytes = read_bytes(path);
  std::vector<Half> halves(bytes.size() / sizeof(Half));
  std::memcpy(halves.data(), bytes.data(), halves.size() * sizeof(Half));
  std::vector<float> values(halves.size());
  std::transform(halves.begin(), halves.end(), values.begin(), half_to_float);
  return values;
}

}  // namespace ocellus::test
