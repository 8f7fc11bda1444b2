// DepthRange: the depths that pictures of 16-bit grey show.
#pragma once

#include <cstdint>
#include <string>

namespace ocellus::app {

// Depths in the pictures' units, usually millimetres: grey falls from white at `near` to black at `far`; 0, no reading,
// is black, too.
struct DepthRange {
  int32_t near = 0;
  int32_t far = 0;  // 0: 16 bits are no depth; their upper eight are shown
  bool is_set() const { return far > 0; }
};

// Parses "NEAR..FAR". Throws a Failure unless 0 <= NEAR < FAR <= 65535.
DepthRange parse_depth_range(const std::string& text);

}  // namespace ocellus::app
