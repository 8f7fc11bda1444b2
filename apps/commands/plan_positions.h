// The positions that planned pictures and text take, which are a limit besides memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/setup/options.h"
#include "apps/setup/setup.h"
#include "runtime/ocellus.h"

namespace ocellus::app {

// A change with which the model has enough positions.
struct PositionAdvice {
  std::string text;
  int64_t total_bytes = 0;  // the plan's total after the change
};

// Positions that a full session takes if all of its pictures have the most tiles.
struct Positions {
  int64_t needed = 0;
  int64_t available = 0;  // 0: unknown
  int64_t pictures = 0;   // frames of clips, or groups of them, included
  std::vector<PositionAdvice> advice;
  bool are_enough() const { return available == 0 || needed <= available; }
};
// `advice` is empty if there are enough, or if no single change is sufficient.
Positions find_positions(const Model& model, const ocellus_limits& limits, const ocellus_plan& plan);

// Returns "2 pictures and 512 text tokens take up to 9000 positions, but the model has 4096"; empty if there are
// enough.
std::string describe_positions(const Positions& positions, const ocellus_limits& limits);

}  // namespace ocellus::app
