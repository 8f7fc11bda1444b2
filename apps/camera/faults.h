// Faults that the synthetic scene shows on purpose; their grammar stands in synthetic_source.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ocellus::app {

struct Fault {
  enum Kind { kStall, kBroken, kTruncated, kDamaged, kResize, kUnplug, kErrors, kSkip, kEnd };
  Kind kind = kStall;
  int64_t frame = 0;              // at which, from 1
  bool every = false;             // at every so many frames
  int64_t count = 0;              // kBroken, kErrors, kSkip
  double seconds = 0;             // kStall, kUnplug
  int32_t width = 0, height = 0;  // kResize
};

struct FaultPlan {
  std::vector<Fault> faults;
  int64_t loop_frames = 0;  // after so many frames the plan starts again; 0: never

  bool strikes(const Fault& fault, int64_t frame) const;
};

// Throws a Failure for text that is not a list of faults.
FaultPlan parse_faults(const std::string& text);

}  // namespace ocellus::app
