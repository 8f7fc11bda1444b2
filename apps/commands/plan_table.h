// The memory plan as a table for users.
#pragma once

#include <string>

#include "runtime/ocellus.h"

namespace ocellus::app {

// Which lines are shown: sums alone; small buffers in one line per lifetime and phase; all of them. Sums are the same.
enum class PlanRows { kSums, kFolded, kAll };

// Formats the buffers by lifetime and phase, each with its sum; then the total that is allocated.
std::string plan_table(const ocellus_plan& plan, PlanRows rows);

}  // namespace ocellus::app
