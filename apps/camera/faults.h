// Faults of the synthetic scene; synthetic_source.h has their grammar.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ocellus::app {

struct Fault {
  enum Kind { kStall, kBroken, kTruncated, kDamaged, kResize, kUnplug, kErrors, kSkip, kEnd };
  Kind kind = kStall;
  int64_t frame = 0;              // number of the frame, from 1
  bool every = false;             // at every multiple of `frame`
  int64_t count = 0;              // kBroken, kErrors, kSkip
  double seconds = 0;             // kStall, kUnplug
  int32_t width = 0, height = 0;  // kResize
};

struct FaultPlan {
  std::vector<Fault> faults;
  int64_t loop_frames = 0;  // period of the plan in frames; 0: runs once

  bool strikes(const Fault& fault, int64_t frame) const;
};

// Throws a Failure for text that is not a list of faults.
FaultPlan parse_faults(const std::string& text);

}  // namespace ocellus::app
